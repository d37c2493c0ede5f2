"""The demo model's table: how a clause is recognised in English and Chinese, and which calls it leads to.

The first row that matches wins. Knows what the tools and their parameters are called. Refuses to know what results look
like, and how far a plan has come.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Union

from agent.llm.demo.facts import summary_of
from agent.llm.demo.language import EXPRESSION, FILE, IT, NAME, SUMMARY, TEXT
from agent.llm.demo.plan import Act, Heard, Rule, Step, Want
from agent.llm.demo.turn import Language, Outcome, language_of
from agent.llm.demo.zones import zones_in

# ------------------------------------------------------------------ what the rules do


def _say(saying: str) -> Act:
    return lambda heard: saying


def _together(*wants: Want) -> list[Step]:
    return [lambda outcomes: wants]


def _run(heard: Heard) -> list[Step]:
    marked = re.search(r"`([^`]+)`", heard.clause)
    return _together(Want("run_command", {"command": marked[1] if marked else heard.text()}))


def _wait(heard: Heard) -> list[Step]:
    unit = (heard.text("unit") or "s")[0].lower()
    seconds = int(heard.text()) * {"s": 1, "秒": 1, "m": 60, "分": 60, "h": 3600, "小": 3600}[unit]
    return _together(Want("run_command", {"command": f"sleep {seconds}"}))


def _write(heard: Heard) -> Union[list[Step], str]:
    if re.match(r"(?:an?|some|my|your)\s|一[首篇封段份]", heard.groups["text"], re.IGNORECASE):
        return "compose"  # "write a poem": making one up takes a language model
    return _together(Want("write_file", {"path": heard.path(), "content": heard.text() + "\n"}))


def _append(heard: Heard) -> list[Step]:
    return _together(Want("append_file", {"path": heard.path(), "content": heard.text() + "\n"}))


def _edit(heard: Heard) -> list[Step]:
    arguments = {"path": heard.path(), "old_text": heard.text("old"), "new_text": heard.text("new")}
    return _together(Want("edit_file", arguments))


def _summarise(heard: Heard) -> list[Step]:
    """Read, unless a clause before did so, and write down what can be counted and copied."""
    target, source = heard.path(), heard.resolve(heard.groups.get("source", ""))
    language = language_of(heard.clause)
    if not source and heard.opens:
        source = heard.last_path

    def write(outcomes: tuple[Outcome, ...]) -> tuple[Want, ...]:
        return (Want("write_file", {"path": target, "content": summary_of(outcomes, language)}),)

    return [*(_together(Want("read_file", {"path": source})) if source else []), write]


def _each_file(tool: str) -> Act:
    def act(heard: Heard) -> Union[list[Step], None]:
        paths = heard.paths()
        return _together(*(Want(tool, {"path": path}) for path in paths)) if paths else None

    return act


def _list(heard: Heard) -> list[Step]:
    return _together(*(Want("list_files", {"path": path} if path else {}) for path in heard.paths() or [""]))


def _search(heard: Heard) -> list[Step]:
    return _together(Want("search_files", {"query": heard.text()}))


def _remember(heard: Heard) -> list[Step]:
    return _together(Want("remember", {"text": heard.text()}))


def _recall(heard: Heard) -> list[Step]:
    return _together(Want("recall", {"query": heard.text()}))


def _delegate(heard: Heard) -> list[Step]:
    return _together(Want("delegate", {"task": heard.text()}))


def _time(heard: Heard) -> list[Step]:
    return _together(*(Want("current_time", {"zone": zone} if zone else {}) for zone in zones_in(heard.clause)))


def _compute(heard: Heard) -> Union[list[Step], None]:
    written = unicodedata.normalize("NFKC", heard.text())  # full-width digits and brackets
    expression = written.translate(str.maketrans("×÷", "*/")).replace("^", "**").strip()
    if not re.search(r"[\d)]\s*[-+*/%]|[a-z]\(", expression):
        return None
    return _together(Want("calculator", {"expression": expression}))


def _illustrate(heard: Heard) -> list[Step]:
    """The one picture the demo knows: the loop it runs in."""
    title, spec = LOOP[language_of(heard.clause)]
    return _together(Want("draw_diagram", {"spec": spec, "title": title}))


def _chart(heard: Heard) -> Union[list[Step], None]:
    kind = next((kind for kind, words in CHARTS.items() if re.search(words, heard.clause, re.IGNORECASE)), "line")
    paths = heard.paths()
    return _together(*(Want("draw_chart", {"kind": kind, "path": path}) for path in paths)) if paths else None


def _draw(heard: Heard) -> list[Step]:
    return _together(Want("generate_image", {"prompt": heard.text()}))


CHARTS = {"bar": r"\bbars?\b|柱状|条形", "scatter": r"\b(?:scatter|points?)\b|散点"}

LOOP: dict[Language, tuple[str, str]] = {
    "en": (
        "The agent loop",
        """person -> loop: message
loop -> model: what was said so far
model -> loop: calls, or an answer
loop -> tools: what may run
tools -> loop: results
loop --> log: all that happens
log --> page: follows
person: You
loop: Agent loop
model: Model
tools: Tools
log: Event log
page: This page""",
    ),
    "zh": (
        "智能体循环",
        """你 -> 智能体循环: 消息
智能体循环 -> 模型: 到目前为止说过的话
模型 -> 智能体循环: 调用，或者回答
智能体循环 -> 工具: 允许执行的调用
工具 -> 智能体循环: 结果
智能体循环 --> 事件日志: 发生的一切
事件日志 --> 页面: 跟随""",
    ),
}

# ------------------------------------------------------------------ the table

_AND_TELL = r"(?:\s*[,;]?\s*and\s+(?:tell|show|give|sum|summari[sz]e|explain|report|let)\b.*)?"
_AND_TELL_ZH = r"(?:\s*[，,；;。]?\s*并?且?\s*(?:[把将]结果)?(?:告诉|总结|说明|解释|给出|返回|显示|看看).*)?"

RULES: tuple[Rule, ...] = (
    # talk
    Rule(
        r"^(hello|hi|hey|good (morning|evening))\b.{0,20}$",
        r"^(你好|您好|嗨|哈喽|早上好|晚上好).{0,6}$",
        _say("hello"),
    ),
    Rule(r"^(thanks|thank you|bye|goodbye)\b.{0,20}$", r"^(谢谢|多谢|再见).{0,6}$", _say("thanks")),
    Rule(
        r"what can you do|(what|who) are you|^help$",
        r"(能|会|可以)做些?什么|你是谁|^帮助$|有(什么|哪些)功能",
        _say("help"),
    ),
    Rule(
        r"(connect|set up|use|add) .{0,20}(model|key)\b",
        r"(连接|接入|使用|配置|换).{0,8}(模型|密钥)",
        _say("connect"),
    ),
    # memory
    Rule(r"^remember(?:\s+that)?\s+(?P<text>.+)$", r"^(?:请|帮我)?记住\s*[:：]?\s*(?P<text>.+)$", _remember),
    Rule(
        r"^what do you (?:know|remember) (?:of|about)\s+(?P<text>.+?)\??$",
        r"^你?(?:还|都)?(?:记得|知道)关于\s*(?P<text>.+?)的?(?:什么|吗|事)*[?？]?$",
        _recall,
    ),
    # work handed over
    Rule(
        r"^(?:let|have|ask)\s+(?:a|the)\s+sub-?agent\s+(?:to\s+)?(?P<text>.+)$",
        r"^(?:让|请|叫)(?:一个)?子(?:代理|智能体)(?P<text>.+)$",
        _delegate,
    ),
    # commands
    Rule(
        rf"^(?:run|execute)\s+(?:the\s+)?(?:command\s+)?(?P<text>.+?){_AND_TELL}$",
        rf"^(?:运行|执行)(?:一下)?(?:命令)?\s*[:：]?\s*(?P<text>.+?){_AND_TELL_ZH}$",
        _run,
    ),
    Rule(
        r"^(?:sleep|wait)(?:\s+for)?\s+(?P<text>\d{1,5})\s*(?P<unit>[smh]?)[a-z]*$",
        r"^(?:等待?|睡眠?|休眠)\s*(?P<text>\d{1,5})\s*(?P<unit>[秒分小]?)[钟时]*$",
        _wait,
    ),
    # files, written
    Rule(
        rf"(?:write|save|put)\s+{SUMMARY}(?:\s+of\s+(?P<source>{NAME}|{IT}))?\s+(?:to|into|in|as)\s+{FILE}$",
        rf"^(?:[把将]\s*)?(?:(?P<source>{NAME}|{IT})\s*的)?{SUMMARY}\s*(?:写入|写到|写进|保存到|保存为|存到|存为)\s*{FILE}$",
        _summarise,
    ),
    Rule(
        rf"^(?:summari[sz]e|sum up)\s+(?P<source>{NAME}|{IT})\s+(?:to|into|in)\s+{FILE}$",
        rf"^写{SUMMARY}\s*(?:到|进|入|并?保存到|并?存到)\s*{FILE}$",
        _summarise,
    ),
    Rule(
        rf"^append\s+{TEXT}\s+to\s+{FILE}$",
        rf"^(?:[把将])\s*{TEXT}\s*(?:追加|添加|加)到\s*{FILE}(?:\s*(?:末尾|后面|里|中))?$",
        _append,
    ),
    Rule(
        rf"^replace\s+(?P<old>.+?)\s+(?:with|by)\s+(?P<new>.+?)\s+in\s+{FILE}$",
        rf"^(?:[把将])\s*{FILE}\s*(?:里|中)?的?\s*(?P<old>.+?)\s*(?:替换|改|换)(?:成|为)\s*(?P<new>.+)$",
        _edit,
    ),
    Rule(
        rf"^(?:write|save|put)\s+(?:the\s+(?:words?|text|line)\s+)?{TEXT}\s+(?:to|into|in)\s+{FILE}$",
        rf"^(?:[把将])\s*{TEXT}\s*(?:写入|写到|写进|保存到|存到|存入)\s*{FILE}(?:\s*(?:里|中))?$",
        _write,
    ),
    Rule(
        rf"^(?:create|make|write)\s+{FILE}\s+(?:with|containing|saying)\s+(?:the\s+(?:words?|text|content)\s+)?{TEXT}$",
        rf"^(?:创建|新建|写)(?:一个)?\s*{FILE}\s*[，,]?\s*(?:内容(?:是|为)?|写入|写上|里面写)\s*[:：]?\s*{TEXT}$",
        _write,
    ),
    # files, handed over, searched, read
    Rule(r"^(send|give|hand|download)\b", r"发送|发给|发我|下载", _each_file("send_file")),
    Rule(r"^(?:search|look)\s+for\s+(?P<text>.+?)(?:\s+in\s+.*)?$", r"^(?:搜索|查找)\s*(?P<text>.+)$", _search),
    Rule(
        r"^(read|open|show|print|display|summari[sz]e|sum up|what is in|what's in)\b(?P<text>.+)",
        r"^(读取?|打开|查看|显示|看看|看一下|总结|概括)(?P<text>.+)",
        _each_file("read_file"),
    ),
    Rule(
        r"\b(list|show|what|which|sum up|see)\b.*\b(files?|folder|directory|workspace)\b",
        r"(列出|有哪些|有什么|查看|看看|显示|总结).*(文件|目录|工作区)",
        _list,
    ),
    # facts
    Rule(
        r"\bwhat(?:'s| is)?\s+(?:the\s+)?(?:current\s+|local\s+)?(?:time|date|day)\b|^(?:the\s+)?(?:current\s+)?time\b",
        r"几点|什么时间|(?:现在|当前|当地)的?时间|几号|星期几",
        _time,
    ),
    Rule(
        rf"^(?:compute|calculate|evaluate|what(?:'s| is)|how much is)?\s*{EXPRESSION}[\s=?]*$",
        rf"^(?:计算|算一下|算)?\s*{EXPRESSION}\s*(?:=|等于多少|等于几|是多少|的结果)*[\s=?？]*$",
        _compute,
    ),
    Rule(
        r"\b(?:chart|plot|graph) (?:of|from|for)\b|^(?:plot|chart)\b", r"(?:柱状图|折线图|散点图|条形图|图表)", _chart
    ),
    Rule(
        r"^(?:draw|make|create|show)\b.*\b(?:illustration|diagram|agent loop|how you work)\b",
        r"^(?:画|绘制|生成|做).*(?:插图|示意图|流程图|结构图|循环)",
        _illustrate,
    ),
    Rule(
        r"^(?:draw|paint|(?:generate|make|create)\s+(?:me\s+)?an?\s+(?:image|picture)\s+of)\s+(?P<text>.+)$",
        r"^(?:画|生成|绘制)(?:一[张幅个只])?(?P<text>.+?)(?:的?(?:图片|图像|图|画))?$",
        _draw,
    ),
    Rule(r"^(write|tell) .{0,20}(poem|story|letter|essay|text)\b", r"(写|讲|创作).{0,3}[首篇封段个].", _say("compose")),
    # a command without "run", and a clause that only asks for what the demo does anyway
    Rule(
        r"^(?P<text>(ls|pwd|echo|cat|head|tail|wc|du|df|date|uname|whoami|python3?|pip|git|sleep)\b.*)$",
        r"(?!)",
        _run,
    ),
    Rule(
        r"^(tell|show|give|report|explain|sum|summari[sz]e)\b.{0,40}$",
        r"^(告诉我|总结|说明|给出|返回).{0,12}$",
        lambda heard: [],
    ),
)

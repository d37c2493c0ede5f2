"""The demo model's sentences, in English and Chinese."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.llm.demo.turn import Language


@dataclass(frozen=True)
class Words:
    """One language. Names in braces are filled in by `answers.py`."""

    mark: str
    """The last line of every answer."""
    calling: str
    closing: str
    """The last item of a checklist."""
    between: str
    """Between two names in a row."""
    sayings: Mapping[str, str]
    results: Mapping[str, str]
    """The sentence about a tool's result, by the tool's name."""
    lost: str
    missing: str
    failed: str
    left_open: str
    told: str
    exit_code: str
    listing: str
    names: str
    largest: str
    cut: str


_CONNECT_EN = """To connect a real model, click on the model's name at the top of the page, or write into `.env` beside
`app.py` (`.env.example` explains each line):

    OPENAI_API_KEY=sk-...
    OPENAI_BASE_URL=https://api.openai.com/v1
    OPENAI_CHAT_MODEL=the-model's-name

Any OpenAI-compatible server will do, also one on this machine (Ollama, LM Studio, llama.cpp, vLLM: found by itself).
`.env` is read when the app starts; `python app.py doctor` checks it."""

_CONNECT_ZH = """要接入真正的模型，请点击页面上方的模型名字，或在 `app.py` 旁边的 `.env` 里写上
（`.env.example` 逐行说明）：

    OPENAI_API_KEY=sk-...
    OPENAI_BASE_URL=https://api.openai.com/v1
    OPENAI_CHAT_MODEL=模型名称

任何兼容 OpenAI 接口的服务都可以，本机的也行（Ollama、LM Studio、llama.cpp、vLLM，会自动发现）。
`.env` 在启动时读取；`python app.py doctor` 会帮你检查。"""

_HELP_EN = """I am not a language model. I follow a table of fixed rules, so that you can watch the whole loop
without a key: the tools I call and everything they do are real. Try one of these:

- What time is it in Tokyo?
- Compute (17 + 4) * 2
- List the files in the workspace.
- Read demo.txt and notes.txt
- Write "hello" to hello.txt, then send it to me
- Read notes.txt and write a summary to summary.md
- Run python --version and tell me the result.
- Draw an illustration of the agent loop
- Draw a bar chart of numbers.csv
- Run sleep 300 (and press Stop)

Tools I am given here: {tools}.

"""

_HELP_ZH = """我不是语言模型，只是按一张固定的规则表行事，让你不需要密钥也能看完整个循环。
我调用的工具和它们做的事都是真的。可以试试：

- 东京现在几点？
- 计算 (17 + 4) * 2
- 列出当前工作区文件。
- 读取 demo.txt 和 notes.txt
- 把“你好”写入 hello.txt，然后把它发给我
- 读取 notes.txt，并把摘要写入 summary.md
- 运行 python --version，并告诉我结果。
- 画一张智能体循环的插图
- 画出 numbers.csv 的柱状图
- 运行 sleep 300（然后按“停止”）

这里给我的工具：{tools}。

"""

WORDS: Mapping[Language, Words] = {
    "en": Words(
        mark="Demo model: fixed rules and real tools, no language model.",
        calling="I call {names}.",
        closing="Say what came of it",
        between=", ",
        sayings={
            "hello": "Hello! I am the demo model of Glassloop. Ask “What can you do?” to see what I understand.",
            "thanks": "You are welcome.",
            "help": _HELP_EN + _CONNECT_EN,
            "connect": _CONNECT_EN,
            "compose": "I cannot make up a text: that takes a language model. Give me the exact words in quotes.",
        },
        results={
            "run_command": "Ran `{command}`.",
            "current_time": "The time:",
            "calculator": "`{expression}` gives:",
            "list_files": "The files:",
            "read_file": "`{path}`: {size}",
            "read_document": "`{path}`: {size}",
            "write_file": "Wrote `{path}`.",
            "append_file": "Added to `{path}`.",
            "edit_file": "Changed `{path}`.",
            "search_files": "Searched for `{query}`.",
            "send_file": "Here is `{path}`: the file is attached to the step above.",
            "generate_image": "The image is attached to the step above.",
            "draw_diagram": "The drawing “{title}” is attached to the step above.",
            "draw_chart": "The chart of `{path}` is attached to the step above.",
            "delegate": "The sub-agent's answer:",
            "remember": "Kept for later conversations:",
            "recall": "What I remember about that:",
        },
        lost="I do not understand “{clause}”. I only know a few kinds of sentences; “What can you do?” lists them.",
        missing="That needs the tool {names}, which is not offered here. The status line of the page says why.",
        failed="That did not work: {reason}",
        left_open="I did not do the rest of your request.",
        told="I was told: “{text}” A language model would think again; I follow fixed rules and stop here.",
        exit_code="Exit code: {code}.",
        listing="The folder holds {files} files and {folders} folders{names}.",
        names=": {names}",
        largest="The largest file is `{name}` with {size} bytes.",
        cut="... ({count} more lines)",
    ),
    "zh": Words(
        mark="演示模型：固定规则、真实工具，不是语言模型。",
        calling="我来调用 {names}。",
        closing="说明结果",
        between="、",
        sayings={
            "hello": "你好！我是 Glassloop 的演示模型。问我“你能做什么？”就能看到我听得懂的话。",
            "thanks": "不客气。",
            "help": _HELP_ZH + _CONNECT_ZH,
            "connect": _CONNECT_ZH,
            "compose": "我不会自己写文章：那需要语言模型。请把要写的原话放在引号里给我。",
        },
        results={
            "run_command": "已运行 `{command}`。",
            "current_time": "现在的时间：",
            "calculator": "`{expression}` 的结果是：",
            "list_files": "文件如下：",
            "read_file": "`{path}`：{size}",
            "read_document": "`{path}`：{size}",
            "write_file": "已写入 `{path}`。",
            "append_file": "已追加到 `{path}`。",
            "edit_file": "已修改 `{path}`。",
            "search_files": "搜索 `{query}` 的结果：",
            "send_file": "`{path}` 已发给你，见上面那一步的附件。",
            "generate_image": "图片见上面那一步的附件。",
            "draw_diagram": "“{title}”已画好，附在上面的步骤里。",
            "draw_chart": "`{path}` 的图表已画好，附在上面的步骤里。",
            "delegate": "子代理的回答：",
            "remember": "已为以后的对话记住：",
            "recall": "我记得的有：",
        },
        lost="我听不懂“{clause}”。我只认得几种句子；问“你能做什么？”可以看到列表。",
        missing="这需要工具 {names}，但这里没有提供。页面的状态行会说明原因。",
        failed="没有成功：{reason}",
        left_open="你请求中余下的部分我没有做。",
        told="我收到提示：“{text}” 语言模型会重新考虑；我只有固定规则，就到这里。",
        exit_code="退出码：{code}。",
        listing="当前目录有 {files} 个文件、{folders} 个文件夹{names}。",
        names="：{names}",
        largest="最大的文件是 `{name}`，{size} 字节。",
        cut="……（还有 {count} 行）",
    ),
}

"""What the terminal says, in English and Chinese."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from agent.events import CallStatus, StopReason
from ui.texts import TEXTS, Words


@dataclass(frozen=True)
class CliTexts:
    """One language. Names in braces are filled in."""

    statuses: Mapping[CallStatus, str]
    endings: Mapping[StopReason, str]
    """What is said when a turn ends; nothing where the answer says it all."""
    thinking: str
    retrying: str
    more_lines: str
    file: str
    note: str
    steered: str
    recalled: str
    stopping: str
    leaving: str
    asks: str
    allow: str
    yes: tuple[str, ...]
    refused_by_person: str
    loading: str
    no_task: str
    model: str
    address: str
    no_port: str
    replaying: str
    next_step: str
    written: str
    receipt: Mapping[str, str]
    """What a stopped turn had done: `calls`, `killed`, `changed`, `incomplete`."""
    sharing: str
    shared: str
    not_shared: str
    tunnel: Mapping[str, str]
    """Why there is no public address, by the codes of `sharing.why`."""
    page: Words
    """The page's words, for what both say."""


CLI_TEXTS: Mapping[Literal["en", "zh"], CliTexts] = {
    "en": CliTexts(
        statuses={
            "done": "done",
            "failed": "failed",
            "denied": "not allowed",
            "stopped": "stopped",
            "interrupted": "interrupted",
        },
        endings={
            "answered": "",
            "awaiting_approval": "Waiting for approval. Nobody could be asked here, so the calls above have not run.",
            "stopped": "Stopped. What was said and done so far is kept; nothing is running any more.",
            "step_limit": "Not finished: the step limit was reached (AGENT_MAX_STEPS).",
            "budget": "Not finished: the budget is used up.",
            "loop": "Not finished: the model repeated itself: the same call with the same result, or the same words.",
            "empty_answer": "Not finished: the model said nothing, twice.",
            "output_truncated": "Not finished: the answer was cut off at the output limit (OPENAI_MAX_OUTPUT_TOKENS).",
            "content_filtered": "Not finished: the provider's filter cut the answer.",
            "interrupted": "Not finished: the app ended in the middle of it.",
            "error": "Failed.",
        },
        thinking="thinking ...",
        retrying="asking again ({detail}), attempt {attempt}",
        more_lines="+{count} lines",
        file="file: {name} ({size} bytes) {path}",
        note="note to the model: {text}",
        steered="you, in the middle: {text}",
        recalled="from memory: {text}",
        stopping="Stopping ... (Ctrl-C again leaves at once)",
        leaving="Left at once.",
        asks="{name} would like to run:",
        allow="Allow this? [y/N] ",
        yes=("y", "yes"),
        refused_by_person="The user said no in the terminal.",
        loading="Loading ...",
        no_task="The task is empty.",
        model="Model: {name}",
        address="Open {url} in a browser. Ctrl-C ends the app.",
        no_port="No port to listen on: {reason}. Another one: --port 0",
        replaying="Replay of: {title}. Nothing here is live: no model is asked, and nothing runs.",
        next_step="[Enter: next step, Ctrl-D: the rest]",
        written="Written: {path}. Keys and passwords from the settings are not in it; look for other private things.",
        receipt={
            "calls": "tool calls that ran: {count}",
            "killed": "processes ended: {count}",
            "changed": "changed: {files}",
            "incomplete": "more files may have changed",
        },
        sharing="Asking for a public address. It needs the outside network, and once downloads a small program ...",
        shared="Public address: {url}\nWhoever has it can use this page. It ends with the app.",
        not_shared="No public address: {why} The page goes on at the address above, with the rules for strangers.",
        tunnel={
            "offline": "the tunnel's server could not be reached, or its program not be downloaded. Is there a "
            "network, and does it let such programs through?",
            "damaged": "the tunnel's program was damaged on its way and was not started. Try again.",
            "folder": "the tunnel needs to write into its own folder and into the current one, and may not.",
            "refused": "the tunnel's server did not open one. Its words are above; try again later.",
        },
        page=TEXTS["en"],
    ),
    "zh": CliTexts(
        statuses={
            "done": "完成",
            "failed": "失败",
            "denied": "未获允许",
            "stopped": "已停止",
            "interrupted": "已中断",
        },
        endings={
            "answered": "",
            "awaiting_approval": "等待批准。这里没有人可以询问，上面的调用没有运行。",
            "stopped": "已停止。已说的和已做的都保留；没有任何程序还在运行。",
            "step_limit": "未完成：达到步数上限（AGENT_MAX_STEPS）。",
            "budget": "未完成：预算已用完。",
            "loop": "未完成：模型不停地重复自己：同样的调用得到同样的结果，或同样的话。",
            "empty_answer": "未完成：模型两次都没有回答。",
            "output_truncated": "未完成：回答达到长度上限被截断（OPENAI_MAX_OUTPUT_TOKENS）。",
            "content_filtered": "未完成：回答被服务商的内容过滤截断。",
            "interrupted": "未完成：程序中途退出。",
            "error": "失败。",
        },
        thinking="思考中……",
        retrying="重新请求（{detail}），第 {attempt} 次",
        more_lines="还有 {count} 行",
        file="文件：{name}（{size} 字节）{path}",
        note="给模型的提示：{text}",
        steered="你，中途插话：{text}",
        recalled="来自记忆：{text}",
        stopping="正在停止……（再按一次 Ctrl-C 立即退出）",
        leaving="已立即退出。",
        asks="{name} 请求运行：",
        allow="允许吗？[y/N] ",
        yes=("y", "yes", "是", "允许"),
        refused_by_person="用户在终端里拒绝了。",
        loading="正在加载……",
        no_task="任务是空的。",
        model="模型：{name}",
        address="请在浏览器中打开 {url}。按 Ctrl-C 退出。",
        no_port="没有可用的端口：{reason}。可以换一个：--port 0",
        replaying="回放：{title}。这里没有任何实时的内容：不会询问模型，也不会运行任何东西。",
        next_step="[回车：下一步，Ctrl-D：其余全部]",
        written="已写入：{path}。其中没有设置里的密钥和密码；请自行检查是否有其他私密内容。",
        receipt={
            "calls": "已运行的工具调用：{count} 次",
            "killed": "已终止的进程：{count} 个",
            "changed": "已改动：{files}",
            "incomplete": "可能还有其他文件被改动",
        },
        sharing="正在申请公网地址。这需要外网连接，首次使用会下载一个小程序……",
        shared="公网地址：{url}\n知道它的人都可以使用这个页面；程序退出后失效。",
        not_shared="没有得到公网地址：{why}页面仍可通过上面的地址使用，按对外开放的规则运行。",
        tunnel={
            "offline": "无法连接隧道服务器，或无法下载它的程序。请检查网络，以及防火墙是否放行。",
            "damaged": "隧道程序在下载中损坏，没有启动。请重试。",
            "folder": "隧道需要写入它自己的目录和当前目录，但没有权限。",
            "refused": "隧道服务器没有开通，它的原话见上。请稍后重试。",
        },
        page=TEXTS["zh"],
    ),
}


def language_of(setting: str, locale: str) -> Literal["en", "zh"]:
    """The terminal's language: `auto` follows the locale, such as `zh_CN.UTF-8`."""
    return "zh" if setting == "zh" or (setting == "auto" and locale.lower().startswith("zh")) else "en"


DoctorTexts = Mapping[str, str]

DOCTOR_TEXTS: Mapping[Literal["en", "zh"], DoctorTexts] = {
    "en": {
        "python_advice": "Tested with Python 3.10 to 3.13: use one of these.",
        "env_missing": "There is none. All settings have defaults; .env.example lists them.",
        "env_read": "{path} is read.",
        "settings": "Settings",
        "settings_ok": "All values make sense.",
        "settings_advice": "Put these right in .env or in the environment; .env.example explains each.",
        "workspace": "Workspace",
        "data": "Data folder",
        "writable": "{path} can be written to.",
        "not_writable": "{path} cannot be written to: {reason}.",
        "not_writable_advice": "Change its owner or mode, or name another folder in .env.",
        "disk": "Disk",
        "free": "{mib} MiB are free.",
        "disk_advice": "Make room: pictures and what the agent installs need some.",
        "sandbox": "Sandbox",
        "shell_on": "",
        "shell_ask": "Commands are asked for one by one. What is missing stands below.",
        "shell_off": "Commands are off: strangers can reach the app and nothing would hold them.",
        "model": "Model",
        "model_used": "{name}",
        "model_advice": "Check OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_CHAT_MODEL in .env, and that the server runs.",
        "demo": "The demo model: fixed rules, no language model.",
        "demo_advice": "Set OPENAI_API_KEY (and OPENAI_BASE_URL) in .env, or start a server such as Ollama here.",
        "models": "Models",
        "models_listed": "The server lists {count}: {names}",
        "models_advice": "Not every server lists its models; only what follows counts.",
        "model_not_listed": "The server does not list {name}. It lists: {names}",
        "model_not_listed_advice": "Put one of these names into OPENAI_CHAT_MODEL, unless what follows works.",
        "streaming": "A streamed reply",
        "streamed": "It came in {pieces} pieces.",
        "empty": "Nothing came back.",
        "tool_calls": "A tool call",
        "called": "It called {name}.",
        "no_call": "It answered in words instead.",
        "no_call_advice": "Use a model that can call tools, or set AGENT_PROTOCOL=json.",
        "images": "Images",
        "images_none": "No server for pictures is set, so there is no such tool.",
        "images_advice": "Set OPENAI_IMAGE_API_KEY (and OPENAI_IMAGE_BASE_URL) in .env if you want one.",
        "images_set": "{model}. Not tried: a picture costs money.",
        "all_well": "Ready.",
        "some_warnings": "It works. The lines marked [!] say what could be better.",
        "unwell": "Something has to be put right: the lines marked [x].",
    },
    "zh": {
        "python_advice": "在 Python 3.10 到 3.13 上测试过，请使用其中之一。",
        "env_missing": "没有这个文件。所有设置都有默认值，见 .env.example。",
        "env_read": "已读取 {path}。",
        "settings": "设置",
        "settings_ok": "所有值都有效。",
        "settings_advice": "请在 .env 或环境变量里改正；.env.example 逐项说明。",
        "workspace": "工作区",
        "data": "数据目录",
        "writable": "{path} 可以写入。",
        "not_writable": "{path} 无法写入：{reason}。",
        "not_writable_advice": "请修改它的所有者或权限，或在 .env 里换一个目录。",
        "disk": "磁盘",
        "free": "剩余 {mib} MiB。",
        "disk_advice": "请腾出空间：图片和智能体安装的东西都要占用。",
        "sandbox": "沙箱",
        "shell_on": "",
        "shell_ask": "每条命令都会先询问。缺少什么见下面几行。",
        "shell_off": "命令已关闭：外人可以访问本应用，而没有东西能约束命令。",
        "model": "模型",
        "model_used": "{name}",
        "model_advice": "请检查 .env 里的 OPENAI_BASE_URL、OPENAI_API_KEY 和 OPENAI_CHAT_MODEL，以及服务是否在运行。",
        "demo": "演示模型：固定规则，不是语言模型。",
        "demo_advice": "请在 .env 里设置 OPENAI_API_KEY（和 OPENAI_BASE_URL），或在本机启动 Ollama 之类的服务。",
        "models": "模型列表",
        "models_listed": "服务列出了 {count} 个：{names}",
        "models_advice": "不是每个服务都能列出模型，以下面的结果为准。",
        "model_not_listed": "服务的列表里没有 {name}，有的是：{names}",
        "model_not_listed_advice": "请把其中一个名字填入 OPENAI_CHAT_MODEL，除非下面的测试成功。",
        "streaming": "流式回答",
        "streamed": "分 {pieces} 段到达。",
        "empty": "什么也没有返回。",
        "tool_calls": "工具调用",
        "called": "它调用了 {name}。",
        "no_call": "它没有调用工具，而是用文字回答。",
        "no_call_advice": "请换一个支持工具调用的模型，或设置 AGENT_PROTOCOL=json。",
        "images": "图片",
        "images_none": "没有设置图片服务，因此没有这个工具。",
        "images_advice": "需要的话，请在 .env 里设置 OPENAI_IMAGE_API_KEY（和 OPENAI_IMAGE_BASE_URL）。",
        "images_set": "{model}。没有试用：生成图片要花钱。",
        "all_well": "一切就绪。",
        "some_warnings": "可以使用。标 [!] 的行是可以改进之处。",
        "unwell": "有问题需要处理：见标 [x] 的行。",
    },
}

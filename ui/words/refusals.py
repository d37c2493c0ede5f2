"""Why something was refused. The engine says it in English; here the same sentences stand in Chinese.

A name in braces stands for whatever the sentence names there. `ui/refused.py` finds the sentence; a test collects all
that the engine can say, and asks for each of them here.
"""

from __future__ import annotations

PREFIX = "refusal_"
"""Before a sentence, in the names of the words."""

_CHINESE = {
    # sessions
    "there is no such session": "没有这个对话",
    "this conversation is open in another process of the app, such as a task in a terminal": (
        "这个对话正在本应用的另一个进程中打开，例如终端里的任务"
    ),
    "an empty title": "标题是空的",
    "an empty message": "消息是空的",
    "this message is no longer waiting": "这条消息已经不在等待发送了",
    "no turn is running that it could steer": "没有正在运行的一轮可以插话",
    "there is nothing to go on with": "没有可以继续的内容",
    "a turn is running; stop it first": "正在运行中，请先停止",
    "stopped before it began": "还没开始就被停止了",
    "there is no such turn": "没有这一轮对话",
    "there is no such process in this session": "这个对话里没有这个进程",
    # limits
    "this is no amount to add": "不能增加这个数量",
    "this is no limit": "这不是有效的限额",
    "this limit was set by whoever runs the app": "这个限额由运行应用的人设定",
    "nothing is used up here": "这里没有用完任何限额",
    "what is used up is {kind}": "用完的是 {kind}",
    "what must be true at the end may have {count} lines of {chars} characters": (
        "“结束时必须满足”最多 {count} 行，每行最多 {chars} 个字符"
    ),
    # the workspace
    "{name} holds signs that cannot be seen": "{name} 含有看不见的字符",
    "{name} cannot be a name": "{name} 不能用作名称",
    "it is not kept any more": "它已经不再保留",
    "the workspace is full; remove something first": "工作区已满，请先删除一些内容",
    # decisions and rules
    "there is no such rule": "没有这条规则",
    "this call does not wait for a decision": "这次调用没有在等待你的决定",
    "the decision is stale: the call's arguments are others": "这个决定已经过时：调用的参数变了",
    "a call that is refused has no scope and no other arguments": "拒绝一次调用时，不能指定范围，也不能修改参数",
    "this scope was not offered for this call": "这次调用没有提供这个范围",
    "there is no tool {name} any more": "工具 {name} 已经不存在",
    "the changed arguments are not sound JSON: {error}": "修改后的参数不是正确的 JSON：{error}",
    "the changed arguments are not a JSON object": "修改后的参数不是 JSON 对象",
    "the changed arguments do not fit: {error}": "修改后的参数不合要求：{error}",
    "the changed call is not allowed here. {why}": "这里不允许修改后的调用：{why}",
    "the changed call is not allowed here": "这里不允许修改后的调用",
    "rules cannot be kept inside the workspace, where the model could write them": (
        "规则不能保存在工作区里，否则模型可以改写它们"
    ),
    "the rules in {name} cannot be read: {error}": "无法读取 {name} 里的规则：{error}",
    "the rules in {name} cannot be written: {error}": "无法写入 {name} 里的规则：{error}",
    "the rules in {name} are not used: {why}. Repair it or delete it": "不采用 {name} 里的规则：{why}。请修复或删除它",
    "it is damaged, or somebody else wrote it": "它已损坏，或者是别人写的",
    "one of its rules is not as it was written": "其中一条规则与写入时不同",
    "it is not a file": "它不是文件",
    "others than this app's user can write it": "除运行本应用的用户外，别人也能写它",
    "it is far too large": "它太大了",
    "it can be kept only by an app that is yours alone": "只有仅供你自己使用的应用才能保存它",
    # memory
    "there is no memory here": "这里没有记忆",
    "there is no such memory": "没有这条记忆",
    "there is nothing to remember in an empty text": "内容是空的，没有可记住的",
    "a memory has {most} characters at most; this one has {count}": "一条记忆最多 {most} 个字符，这条有 {count} 个",
    "there are {count} memories already; forget some first": "已经有 {count} 条记忆了，请先删除一些",
    "the user has switched memory off": "记忆已被用户关闭",
    "this looks like {what}, and secrets are not remembered. Nothing was kept": (
        "这看起来像{what}，机密内容不会被记住，什么都没有保存"
    ),
    "a secret of this app": "本应用的密钥",
    "a key or a token": "密钥或令牌",
    "a password, a key or a code": "密码、密钥或验证码",
    "a card number": "卡号",
    "an identity number": "证件号码",
    # undo
    "a call waits for your decision; decide it first, then undo": "有一次调用在等待你的决定，请先决定，再撤销",
    "this call changed no files, or there is no checkpoint of it": "这次调用没有改动文件，或者没有它的检查点",
    "this turn is not on the branch that is shown": "这一轮不在当前显示的版本里",
    "checkpoints are switched off here, so files cannot be put back": "这里没有启用检查点，无法恢复文件",
    "this checkpoint is not kept any more": "这个检查点已经不再保留",
    "this is not a checkpoint": "这不是检查点",
    "the content of this checkpoint is not kept any more": "这个检查点的内容已经不再保留",
    "this file did not change there": "这个文件在那里没有变化",
    "nothing was undone, because it would take back more than was asked. {what}": (
        "什么都没有撤销，否则会连别的改动也一起撤销：{what}"
    ),
    "no checkpoint could be taken ({error}), so {so}": "无法建立检查点（{error}），所以{so}",
    "nothing was undone": "什么都没有撤销",
    "nothing was looked at": "什么都没有查看",
    "what was put back cannot be told": "无法说明恢复了什么",
    "the workspace holds too many files for checkpoints": "工作区里的文件太多，无法建立检查点",
    "a tool is at work in this workspace; wait until it is done, or stop it": (
        "有工具正在这个工作区里运行，请等它完成或停止它"
    ),
    # files brought in
    "the file is larger than {size} MB": "文件大于 {size} MB",
    "the file is cut off, or has too many lines": "文件不完整，或者行数太多",
    "there is nothing in the file": "文件是空的",
    "the file is no exported session": "这不是导出的对话文件",
    "the file was made by a newer version of this app (its format is {version})": (
        "这个文件由更新版本的应用生成（格式 {version}）"
    ),
    "line {number} does not follow from the lines before it": "第 {number} 行与前面的内容不衔接",
    "line {number} is too long": "第 {number} 行太长",
    "line {number} holds a number that cannot be": "第 {number} 行含有无效的数字",
    "line {number} is no entry of a log": "第 {number} 行不是日志记录",
    "line {number} has no time": "第 {number} 行没有时间",
    # the page
    "the visitor is unknown": "无法识别访问者",
    "this page is not connected any more": "这个页面已断开连接，请重新加载",
    "there is nothing to report yet": "还没有可以写进报告的内容",
    "there is no such file": "没有这个文件",
    # recordings
    "there is nothing in this recording": "这段录像是空的",
    "this is a recording": "这是一段录像",
    "this is no replay": "这不是回放",
    "there is no such recording": "没有这段录像",
    "{name} is larger than {size} MB": "{name} 大于 {size} MB",
    "{name} cannot be read: {error}": "无法读取 {name}：{error}",
    "{name} cannot be written: {error}": "无法写入 {name}：{error}",
    # the database
    "The disk is full. Make room, then go on; what was kept is safe": "磁盘已满。请先腾出空间，已保存的内容是安全的",
    "Another process writes to this session. Reload it; nothing was overwritten": (
        "另一个进程正在写入这个对话。请重新加载，没有内容被覆盖"
    ),
    "The database does not answer as it should": "数据库没有正常响应",
    "The database cannot be read: {error}. Nothing in it was changed": "无法读取数据库：{error}。其中的内容没有改动",
}

EN = {PREFIX + sentence: sentence for sentence in _CHINESE}
ZH = {PREFIX + sentence: chinese for sentence, chinese in _CHINESE.items()}

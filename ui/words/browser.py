"""The workspace in the right panel."""

EN = {
    "workspace": "Workspace",
    "workspace_empty": "The workspace is empty. What the agent makes appears here, and you can add files yourself.",
    "workspace_rest": "There is more; only the first part is shown.",
    "files_add": "Add files",
    "file_mention": "Mention in message",
    "file_removed": "{name} was removed.",
    "file_other": "link",
    "file_not_added": "{name} was not added: {why}.",
    "look_none": "This kind of file cannot be shown here. Download it to open it.",
    "look_empty": "The file is empty.",
}

ZH = {
    "workspace": "工作区",
    "workspace_empty": "工作区是空的。智能体生成的文件会出现在这里，你也可以自己添加文件。",
    "workspace_rest": "还有更多，这里只显示前一部分。",
    "files_add": "添加文件",
    "file_mention": "在消息中提及",
    "file_removed": "已移除 {name}。",
    "file_other": "链接",
    "file_not_added": "没有添加 {name}：{why}。",
    "look_none": "这种文件无法在这里显示，请下载后打开。",
    "look_empty": "这个文件是空的。",
}

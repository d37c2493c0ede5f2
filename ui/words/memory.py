"""Memory across conversations: the list, and what a turn was reminded of."""

EN = {
    # in the turn
    "recalled": "From memory: {count} notes",
    "recalled_one": "From memory: 1 note",
    # approval
    "effect_remember": "memory",
    "why_hearsay": "Something from outside (a file, a command, a page) was read in this conversation, and it may be "
    "what asks for this. Is it your wish?",
    # the panel
    "memory": "Memory",
    "memory_about": "What the agent knows of you in every conversation. A turn is reminded of the few notes that have "
    "to do with it. Passwords, keys and card numbers are not kept.",
    "memory_on": "Memory is on",
    "memory_off": "Memory is off: nothing is added and nothing recalled. What there is stays.",
    "memory_switch_on": "Switch on",
    "memory_switch_off": "Switch off",
    "memory_none": "Nothing yet. Say “remember that …” in any conversation, and it stands here to be read, changed "
    "or deleted.",
    "memory_not_here": "Memory is switched off by whoever runs this app.",
    "memory_not_in_recordings": "A recording has no memory.",
    "memory_always": "always",
    "memory_from": "from",
    "memory_from_gone": "from a conversation that is gone",
    "memory_used": "last used",
    "memory_never_used": "not used yet",
    "memory_text": "What is remembered",
    "memory_edit": "Change",
    "memory_save": "Save",
    "memory_deleted": "Deleted: {text}",
    "nudge_imported": "Imported from a file: nobody here has said it.",
}

ZH = {
    # in the turn
    "recalled": "来自记忆：{count} 条",
    "recalled_one": "来自记忆：1 条",
    # approval
    "effect_remember": "记忆",
    "why_hearsay": "本次对话读取过外部内容（文件、命令或网页），这个请求可能出自那些内容。这是你的意思吗？",
    # the panel
    "memory": "记忆",
    "memory_about": "智能体在每次对话中都知道的关于你的事。每一轮只会想起与之有关的几条。密码、密钥和卡号不会保存。",
    "memory_on": "记忆已开启",
    "memory_off": "记忆已关闭：不会新增，也不会想起。已有的会保留。",
    "memory_switch_on": "开启",
    "memory_switch_off": "关闭",
    "memory_none": "还没有。在任意对话里说“记住……”，它就会列在这里，可以查看、修改或删除。",
    "memory_not_here": "本应用的运行者关闭了记忆。",
    "memory_not_in_recordings": "录像没有记忆。",
    "memory_always": "始终",
    "memory_from": "来自",
    "memory_from_gone": "来自一个已不存在的对话",
    "memory_used": "上次用到",
    "memory_never_used": "还没用到过",
    "memory_text": "记住的内容",
    "memory_edit": "修改",
    "memory_save": "保存",
    "memory_deleted": "已删除：{text}",
    "nudge_imported": "从文件导入：这些话不是在这里说的。",
}

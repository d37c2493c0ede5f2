"""Sub-agents: their steps under the call that runs them, and their requests."""

EN = {
    "sub_agent_did": "What the sub-agent did",
    "sub_agent_step": "step {number}",
    "sub_agent_earlier": "{count} earlier steps",
    "sub_agent_messages": "exact messages",
    "context_sub_agent": "A sub-agent's request: it sees this and nothing else of the conversation.",
    "fact_steps": "{value} steps",
    "fact_steps_one": "{value} step",
}

ZH = {
    "sub_agent_did": "子代理做了什么",
    "sub_agent_step": "第 {number} 步",
    "sub_agent_earlier": "更早的 {count} 步",
    "sub_agent_messages": "完整消息",
    "context_sub_agent": "这是子代理的请求：它只看得到这些，看不到对话的其余部分。",
    "fact_steps": "{value} 步",
    "fact_steps_one": "{value} 步",
}

"""Messages that enter a running turn."""

EN = {
    "steer": "Steer now",
    "steer_more": "Let the model read it before its next step, instead of after the turn",
    "steering": "enters at the next step",
    "steer_keys": "Enter queues. Ctrl+Enter (Mac: ⌘+Enter) steers: the model reads it before its next step.",
    "steered": "you, in the middle",
}

ZH = {
    "steer": "立即插话",
    "steer_more": "让模型在下一步之前读到它，而不是等这一轮结束",
    "steering": "下一步之前送达",
    "steer_keys": "按 Enter 排队；按 Ctrl+Enter（Mac 上为 ⌘+Enter）立即插话，模型会在下一步之前读到。",
    "steered": "你，中途插话",
}

"""Recordings that are played again."""

EN = {
    "recordings": "Or watch a recording",
    "replay": "Replay",
    "replay_more": "Nothing here is live: no model is asked, and nothing runs.",
    "replay_play": "Play",
    "replay_pause": "Pause",
    "replay_step": "Next step",
    "replay_all": "All at once",
    "replay_again": "From the start",
    "replay_speed": "Speed {speed}×",
    "replay_leave": "Leave",
    "report": "Report",
}

ZH = {
    "recordings": "或者观看一段录像",
    "replay": "回放",
    "replay_more": "这里没有任何实时的内容：不会询问模型，也不会运行任何东西。",
    "replay_play": "播放",
    "replay_pause": "暂停",
    "replay_step": "下一步",
    "replay_all": "全部显示",
    "replay_again": "从头开始",
    "replay_speed": "速度 {speed}×",
    "replay_leave": "离开",
    "report": "报告",
}

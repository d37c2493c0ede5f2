"""Pictures: their prompts, what can be done with one, and all of them together."""

EN = {
    "gallery": "Pictures",
    "picture_again": "Again",
    "picture_vary": "Vary",
    "picture_rework": "Edit",
    "picture_again_say": "Draw this once more: {prompt}",
    "picture_vary_say": "Draw a variation of `{path}`. It was drawn from: {prompt}",
    "picture_rework_say": "Change this in `{path}`: ",
    "picture_revised": "Drawn as: {prompt}",
}

ZH = {
    "gallery": "图片",
    "picture_again": "再画一张",
    "picture_vary": "画变体",
    "picture_rework": "修改",
    "picture_again_say": "再画一张：{prompt}",
    "picture_vary_say": "画一张 `{path}` 的变体。原来的描述是：{prompt}",
    "picture_rework_say": "修改 `{path}`：",
    "picture_revised": "实际描述：{prompt}",
}

"""Families of models that are more than decoders of text, and towers: loaded for types that no decoder's family has."""

from __future__ import annotations

# importing a lineage registers its families
from roofline.model.families import (  # noqa: F401
    time_series,
)
from roofline.model.families.diffusion import (  # noqa: F401
    actions,
    autoencoders,
    cross_attention,
    mm_dit,
    pipelines,
    single_stream,
    unets,
)
from roofline.model.families.image_text import (  # noqa: F401
    clip,
    florence,
    idefics,
    image_to_text,
    joint,
    moondream,
    pix2struct,
    retrieval,
    t5gemma2,
    udop,
)
from roofline.model.families.speech import (  # noqa: F401
    clap,
    codecs,
    conformers,
    musicgen,
    speech_to_text,
    text_to_speech,
    transcribers,
    transducers,
    vocoders,
    wav2vec2,
    whisper,
)
from roofline.model.families.text import (  # noqa: F401
    bart,
    bert,
    bert_variants,
    deberta,
    encoder_decoder,
    masked_diffusion,
    modernbert,
    perceiver,
    pooled,
    rotary_encoders,
    t5,
    t5gemma,
)
from roofline.model.families.towers import (  # noqa: F401
    audio,
    fixed_resolution,
    gemma,
    granite_speech,
    inkling,
    native_resolution,
    phi4,
    quantized,
    qwen_vl,
    remote,
    remote_more,
    resampled,
    vibevoice,
)
from roofline.model.families.vision import (  # noqa: F401
    backbones,
    convnets,
    convolution_attention,
    hiera,
    lcnets,
    levit,
    mobilevit,
    pyramids,
    swin,
    vit,
)
from roofline.model.families.vision.detection import (  # noqa: F401
    d_fine,
    detr,
    grounding,
    paddle_ocr,
    rf_detr,
    vitpose,
)
from roofline.model.families.vision.maps import (  # noqa: F401
    depth_pro,
    dpt,
    sam,
    sam3,
    segmentation,
    zoe_depth,
)

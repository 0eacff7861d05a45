"""Families of models that are more than decoders of text, and towers: loaded for types that no decoder's family has."""

from __future__ import annotations

from roofline.model.families import (  # noqa: F401  (importing a lineage registers its families)
    bert_variants,
    clap,
    codecs,
    composite,
    conformers,
    diffusion,
    disentangled,
    encoders,
    heard,
    modernbert,
    rotary_encoders,
    seq2seq,
    series,
    speech,
    speech_encoders,
    t5,
    t5gemma,
    vision_towers,
)

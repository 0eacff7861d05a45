"""Model types of transformers 5.23 that are not covered yet, or never will be, with a description.

Every type of its CONFIG_MAPPING is a family, a model that contains one (`wrappers`), or listed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

COVERED = "a supported model"
"""Description of the supported models, for errors."""
NOT_COVERED_YET = "a decoder with layers that are not covered yet"
"""Description of models that can be counted by tracing their published code."""

_KINDS = {
    "an encoder, which reads text and writes none": """
        blip_text_model clap_text_model clvp_encoder embedding_gemma2 embedding_gemma2_text layoutlmv2 layoutxlm
        openai_privacy_filter sam3_lite_text_text_model videoprism_text_model
    """,
    "an encoder-decoder, or half of one, whose decoder attends to what an encoder read": """
        nougat pix2struct_text_model pp_formulanet_text rag t5_gemma_module
        t5gemma2_decoder t5gemma2_encoder t5gemma2_text trocr
    """,
    "an encoder of text together with images or sound, which writes no text": """
        flava_multimodal_model lxmert modernvbert neomme pe_audio pe_audio_video pe_video tipsv2 tvp ultravbert
        videoprism visual_bert xclip
    """,
    "a vision model, or the part of a whole that sees": """
        blip_2_vision_model chameleon_vqgan chmv2 cohere_compass_vision deepseek_ocr2_encoder
        deepseek_ocr2_sam_vision_model deepseek_ocr2_vision dinat dots3_note_vision_encoder edgetam
        edgetam_mask_decoder edgetam_prompt_encoder edgetam_video edgetam_video_mask_decoder
        edgetam_video_prompt_encoder edgetam_vision_model efficientloftr emu3_vqgan ernie4_5_vl_moe_vision
        flava_image_codebook gemma4_unified_vision glm_image_vision glm_image_vqmodel
        got_ocr2_vision idefics_vision instructblip_vision_model instructblipvideo_vision_model
        janus_vision_model janus_vqgan lightglue molmo2_vision omdet-turbo oneformer pe_audio_video_encoder
        pe_video_encoder phi4_multimodal_vision pp_chart2table_vision pp_formulanet_vision radio rf_detr_dinov2
        sam2_mask_decoder sam2_prompt_encoder sam2_video_mask_decoder sam2_video_prompt_encoder sam3
        sam3_detr_decoder sam3_detr_encoder sam3_geometry_encoder sam3_lite_text sam3_lite_text_detr_decoder
        sam3_lite_text_detr_encoder sam3_lite_text_geometry_encoder sam3_lite_text_mask_decoder sam3_mask_decoder
        sam3_tracker_mask_decoder sam3_tracker_prompt_encoder sam3_tracker_video_mask_decoder
        sam3_tracker_video_prompt_encoder sam_hq_mask_decoder sam_hq_prompt_encoder sam_mask_decoder
        sam_prompt_encoder sapiens2 sapiens2_head seggpt slanext slanext_vision step3p5_vision superglue swin2sr
        timm_backbone unlimited_ocr_sam_vision_model unlimited_ocr_vision unlimited_ocr_vision_encoder videomt
        videoprism_vision_model xclip_vision_model
    """,
    "an audio model, or the part of a whole that hears or speaks": """
        bark clvp csm dots3_note_audio_encoder gemma4_unified_audio gradium_phonon_tts
        higgs_audio_v2 higgs_audio_v2_tokenizer nemotron3_5_transcribe_asr_audio
        nemotron3_5_transcribe_audio nemotron3_5_transcribe_word_timestamp nemotron3_diarization
        nemotron3_diarization_audio neucodec pe_audio_encoder pocket_tts
        qwen2_5_omni_bigvgan qwen2_5_omni_token2wav vibevoice xcodec
    """,
    "a diffusion model, which writes by removing noise instead of token after token": """
        diffusion_gemma diffusion_gemma_text glm_image qwen2_5_omni_dit vibevoice_diffusion
    """,
    "a forecaster of time series": """
        autoformer informer time_series_transformer
    """,
    "a model of proteins": """
        esmfold2
    """,
    "a model that decides instead of writing text": """
        decision_transformer jev
    """,
    "a part of a whole, no model of its own": """
        EvollaModel blip_2_qformer blt_global_transformer blt_local_decoder blt_local_encoder blt_patcher
        clvp_decoder csm_depth_decoder_model idefics2_perceiver idefics_perciever instructblip_qformer
        instructblipvideo_qformer molmo2_adapter moshi_depth muse_glimmer_assistant qwen2_5_omni_talker
        qwen3_omni_moe_talker_code_predictor qwen3_omni_moe_talker_text
    """,
    NOT_COVERED_YET: """
        gemma4_assistant gemma4_unified_assistant
    """,
    "a decoder of bytes in patches, whose number the text decides and no config says": """
        blt
    """,
    "a decoder whose tokens attend to those behind them too": """
        cpmant xlnet
    """,
}

REFUSED: Mapping[str, str] = MappingProxyType({name: kind for kind, names in _KINDS.items() for name in names.split()})
"""Model type → description of what it is."""

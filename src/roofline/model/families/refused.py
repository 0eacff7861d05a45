"""Model types of transformers 5.23 that are not decoders of text tokens or are not covered yet, with a description.

Every type of its CONFIG_MAPPING is a family, a multimodal model that contains one (`wrappers`), or listed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

COVERED = "a decoder of text tokens, or a multimodal whole with one inside"
"""Description of the supported models, for errors."""
NOT_COVERED_YET = "a decoder with layers that are not covered yet"
"""Description of models that can be counted by tracing their published code."""

_KINDS = {
    "an encoder, which reads text and writes none": """
        aimv2_text_model blip_text_model bridgetower_text_model clap_text_model clvp_encoder embedding_gemma2
        embedding_gemma2_text flava_text_model groupvit_text_model layoutlmv2 layoutxlm openai_privacy_filter
        sam3_lite_text_text_model videoprism_text_model xclip_text_model
    """,
    "an encoder-decoder, or half of one, whose decoder attends to what an encoder read": """
        nougat pix2struct pix2struct_text_model pp_formulanet pp_formulanet_text rag t5_gemma_module t5gemma2
        t5gemma2_decoder t5gemma2_encoder t5gemma2_text trocr udop
    """,
    "an encoder of text together with images or sound, which writes no text": """
        aimv2 bridgetower clipseg flava flava_multimodal_model groupvit lxmert modernvbert neomme pe_audio
        pe_audio_video pe_video tipsv2 tvp ultravbert videoprism vilt vision-text-dual-encoder visual_bert
        xclip
    """,
    "a vision model, or the part of a whole that sees": """
        aimv2_vision_model blip_2_vision_model bridgetower_vision_model chameleon_vqgan
        chinese_clip_vision_model chmv2 cohere_compass_vision cosmos3_edge_vision cvt d_fine dab-detr
        deepseek_ocr2_encoder deepseek_ocr2_sam_vision_model deepseek_ocr2_vision deimv2 depth_pro dinat
        dots3_note_vision_encoder edgetam edgetam_mask_decoder edgetam_prompt_encoder edgetam_video
        edgetam_video_mask_decoder edgetam_video_prompt_encoder edgetam_vision_model efficientloftr emu3_vqgan
        ernie4_5_vl_moe_vision exaone4_5_vision flava_image_codebook flava_image_model focalnet gemma3n_vision
        gemma4_unified_vision gemma4_vision git_vision_model glm4v_moe_vision glm4v_vision glm5_next_vision
        glm_image_vision glm_image_vqmodel glm_ocr_vision got_ocr2_vision granite_docling_vision
        groupvit_vision_model hiera hunyuan_vl_vision idefics2_vision idefics3_vision idefics_vision
        inkling2_vision inkling_vision instructblip_vision_model instructblipvideo_vision_model
        internvl_vision janus_vision_model janus_vqgan kimi_k25_vision kosmos_2_5_vision_model
        kosmos_2_vision_model lfm3_vl_vision lightglue llama4_vision_model lw_detr lw_detr_vit maskformer
        minicpm_ocr_vision minicpmv4_6_vision minicpmv4_7_vision minimax_m3_vl_vision mllama_vision_model
        mobilevit mobilevitv2 molmo2_vision muse_glimmer_vision muse_spark_vision omdet-turbo oneformer
        ovis2_vision paddleocr_vl_vision pe_audio_video_encoder pe_video_encoder phi4_multimodal_vision
        pix2struct_vision_model pixtral pp_chart2table_vision pp_doclayout_v2 pp_doclayout_v3 pp_doclayout_v4
        pp_formulanet_vision pp_lcnet_v3 pp_lcnet_v4 pp_ocrv5_mobile_det pp_ocrv5_mobile_rec
        pp_ocrv5_server_det pp_ocrv5_server_rec pp_ocrv6_medium_det pp_ocrv6_small_det pp_ocrv6_small_rec
        pp_ocrv6_tiny_rec prompt_depth_anything qianfan_ocr_vision qwen2_5_omni_vision_encoder
        qwen2_5_vl_vision qwen2_vl_vision qwen3_5_moe_vision qwen3_5_vision qwen3_omni_moe_vision_encoder
        qwen3_vl_moe_vision qwen3_vl_vision qwen4_exp_vision radio rf_detr_dinov2 sam2_mask_decoder
        sam2_prompt_encoder sam2_video_mask_decoder sam2_video_prompt_encoder sam3 sam3_detr_decoder
        sam3_detr_encoder sam3_geometry_encoder sam3_lite_text sam3_lite_text_detr_decoder
        sam3_lite_text_detr_encoder sam3_lite_text_geometry_encoder sam3_lite_text_mask_decoder
        sam3_mask_decoder sam3_tracker sam3_tracker_mask_decoder sam3_tracker_prompt_encoder
        sam3_tracker_video sam3_tracker_video_mask_decoder sam3_tracker_video_prompt_encoder sam3_video
        sam3_vision_model sam3_vit_model sam_hq_mask_decoder sam_hq_prompt_encoder sam_mask_decoder
        sam_prompt_encoder sapiens2 sapiens2_head seggpt slanet slanext slanext_vision smolvlm_vision
        step3p5_vision superglue swiftformer swin2sr textnet timm_backbone tipsv2_dpt tipsv2_vision_model
        unlimited_ocr_sam_vision_model unlimited_ocr_vision unlimited_ocr_vision_encoder uvdoc uvdoc_backbone
        video_llama_3_vision videomt videoprism_vision_model vitmatte vitpose vitpose_backbone
        xclip_vision_model zoedepth
    """,
    "an audio model, or the part of a whole that hears or speaks": """
        bark clvp csm dots3_note_audio_encoder fun_asr_nano_encoder gemma3n_audio gemma4_audio
        gemma4_unified_audio gradium_phonon_tts granite_speech_encoder granite_speech_plus_encoder
        higgs_audio_v2 higgs_audio_v2_tokenizer inkling_audio muse_spark_audio
        nemotron3_5_transcribe_asr_audio nemotron3_5_transcribe_audio nemotron3_5_transcribe_word_timestamp
        nemotron3_diarization nemotron3_diarization_audio neucodec pe_audio_encoder phi4_multimodal_audio
        pocket_tts qwen2_5_omni_audio_encoder qwen2_5_omni_bigvgan qwen2_5_omni_token2wav qwen3_asr_encoder
        qwen3_omni_moe_audio_encoder vibevoice xcodec
    """,
    "a diffusion model, which writes by removing noise instead of token after token": """
        diffusion_gemma diffusion_gemma_text glm_image glm_image_text qwen2_5_omni_dit vibevoice_diffusion
    """,
    "a forecaster of time series": """
        autoformer informer time_series_transformer
    """,
    "a model of proteins": """
        esmfold2 evolla
    """,
    "a model that decides instead of writing text": """
        decision_transformer jev pi0
    """,
    "a part of a whole, no model of its own": """
        EvollaModel blip_2_qformer blt_global_transformer blt_local_decoder blt_local_encoder blt_patcher
        clvp_decoder csm_depth_decoder_model idefics2_perceiver idefics_perciever instructblip_qformer
        instructblipvideo_qformer molmo2_adapter moshi_depth muse_glimmer_assistant qwen2_5_omni_talker
        qwen3_omni_moe_talker_code_predictor qwen3_omni_moe_talker_text
    """,
    NOT_COVERED_YET: """
        gemma4_assistant gemma4_unified_assistant idefics qwen4_exp_text unlimited_ocr_text
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

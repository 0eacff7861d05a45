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
        blip_text_model bros canine clap_text_model clvp_encoder
        colmodernvbert colpali colqwen2 embedding_gemma2 embedding_gemma2_text funnel
        layoutlmv2 layoutxlm openai_privacy_filter sam3_lite_text_text_model
        videoprism_text_model
    """,
    "an encoder-decoder, or half of one, whose decoder attends to what an encoder read": """
        canary canary_decoder cohere_asr dia dia_decoder longt5 moonshine_streaming nougat pegasus_x pix2struct
        pix2struct_text_model pp_formulanet pp_formulanet_text prophetnet rag t5_gemma_module t5gemma2
        t5gemma2_decoder t5gemma2_encoder t5gemma2_text trocr udop
    """,
    "an encoder of text together with images or sound, which writes no text": """
        flava_multimodal_model lxmert modernvbert neomme pe_audio
        pe_audio_video pe_video perceiver tipsv2 tvp ultravbert videoprism vision-text-dual-encoder
        visual_bert xclip
    """,
    "a vision model, or the part of a whole that sees": """
        aimv2_vision_model blip_2_vision_model bridgetower_vision_model chameleon_vqgan chmv2
        cohere_compass_vision cvt d_fine dab-detr deepseek_ocr2_encoder deepseek_ocr2_sam_vision_model
        deepseek_ocr2_vision deimv2 depth_pro dinat dots3_note_vision_encoder edgetam edgetam_mask_decoder
        edgetam_prompt_encoder edgetam_video edgetam_video_mask_decoder edgetam_video_prompt_encoder
        edgetam_vision_model efficientloftr emu3_vqgan ernie4_5_vl_moe_vision flava_image_codebook
        flava_image_model focalnet gemma3n_vision gemma4_unified_vision glm_image_vision glm_image_vqmodel
        got_ocr2_vision groupvit_vision_model hiera idefics_vision inkling_vision instructblip_vision_model
        instructblipvideo_vision_model janus_vision_model janus_vqgan lightglue lw_detr lw_detr_vit maskformer
        mgp-str mobilevit mobilevitv2 molmo2_vision omdet-turbo oneformer pe_audio_video_encoder pe_video_encoder
        phi4_multimodal_vision pp_chart2table_vision pp_doclayout_v2 pp_doclayout_v3 pp_doclayout_v4
        pp_formulanet_vision pp_lcnet_v3 pp_lcnet_v4 pp_ocrv5_mobile_det pp_ocrv5_mobile_rec pp_ocrv5_server_det
        pp_ocrv5_server_rec pp_ocrv6_medium_det pp_ocrv6_small_det pp_ocrv6_small_rec pp_ocrv6_tiny_rec
        prompt_depth_anything radio rf_detr_dinov2 sam2_mask_decoder sam2_prompt_encoder sam2_video_mask_decoder
        sam2_video_prompt_encoder sam3 sam3_detr_decoder sam3_detr_encoder sam3_geometry_encoder sam3_lite_text
        sam3_lite_text_detr_decoder sam3_lite_text_detr_encoder sam3_lite_text_geometry_encoder
        sam3_lite_text_mask_decoder sam3_mask_decoder sam3_tracker sam3_tracker_mask_decoder
        sam3_tracker_prompt_encoder sam3_tracker_video sam3_tracker_video_mask_decoder
        sam3_tracker_video_prompt_encoder sam3_video sam3_vision_model sam3_vit_model sam_hq_mask_decoder
        sam_hq_prompt_encoder sam_mask_decoder sam_prompt_encoder sapiens2 sapiens2_head seggpt slanet slanext
        slanext_vision step3p5_vision superglue swiftformer swin2sr textnet timm_backbone tipsv2_dpt
        tipsv2_vision_model unlimited_ocr_sam_vision_model unlimited_ocr_vision unlimited_ocr_vision_encoder
        uvdoc uvdoc_backbone videomt videoprism_vision_model vitmatte vitpose vitpose_backbone xclip_vision_model
        zoedepth
    """,
    "an audio model, or the part of a whole that hears or speaks": """
        bark clvp csm dac dia_encoder dots3_note_audio_encoder fastspeech2_conformer
        fastspeech2_conformer_hifigan fastspeech2_conformer_with_hifigan gemma3n_audio gemma4_audio
        gemma4_unified_audio gradium_phonon_tts higgs_audio_v2 higgs_audio_v2_tokenizer inkling_audio mimi
        mimi_decoder mimi_encoder moonshine_streaming_encoder musicgen musicgen_decoder musicgen_melody
        musicgen_melody_decoder nemotron3_5_asr nemotron3_5_transcribe_asr_audio nemotron3_5_transcribe_audio
        nemotron3_5_transcribe_word_timestamp nemotron3_diarization nemotron3_diarization_audio
        nemotron_asr_streaming neucodec parakeet_rnnt parakeet_tdt pe_audio_encoder phi4_multimodal_audio
        pocket_tts pocket_tts_audio_tokenizer pocket_tts_audio_tokenizer_decoder
        pocket_tts_audio_tokenizer_encoder qwen2_5_omni_bigvgan qwen2_5_omni_token2wav speecht5_hifigan univnet
        vibevoice vibevoice_acoustic_tokenizer vibevoice_acoustic_tokenizer_decoder
        vibevoice_acoustic_tokenizer_encoder vits xcodec xcodec2
    """,
    "a diffusion model, which writes by removing noise instead of token after token": """
        diffusion_gemma diffusion_gemma_text glm_image glm_image_text qwen2_5_omni_dit vibevoice_diffusion
    """,
    "a forecaster of time series": """
        autoformer informer patchtsmixer time_series_transformer
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
        gemma4_assistant gemma4_unified_assistant kyutai_speech_to_text qwen4_exp_text reformer
        unlimited_ocr_text
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

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
        aimv2_text_model albert align_text_model altclip_text_model bert-generation big_bird blip_text_model
        bridgetower_text_model bros camembert canine chinese_clip_text_model clap_text_model clip_text_model
        clipseg_text_model clvp_encoder colmodernvbert colpali colqwen2 convbert data2vec-text deberta
        deberta-v2 distilbert dpr electra embedding_gemma2 embedding_gemma2_text ernie eurobert flaubert
        flava_text_model fnet funnel groupvit_text_model gte ibert jina_embeddings_v3 layoutlm layoutlmv2
        layoutlmv3 layoutxlm lilt longformer luke markuplm megatron-bert metaclip_2_text_model mobilebert
        modernbert mpnet mra nomic_bert nystromformer openai_privacy_filter owlv2_text_model owlvit_text_model
        rembert roberta roberta-prelayernorm roc_bert roformer sam3_lite_text_text_model siglip2_text_model
        siglip_text_model splinter squeezebert tapas tipsv2_text_model ultrabert videoprism_text_model
        xclip_text_model xlm xlm-roberta xlm-roberta-xl xmod yoso
    """,
    "an encoder-decoder, or half of one, whose decoder attends to what an encoder read": """
        bart bigbird_pegasus blenderbot blenderbot-small blip canary canary_decoder cohere_asr dia dia_decoder
        encoder-decoder florence2 fsmt led longt5 m2m_100 marian mbart moonshine moonshine_streaming mt5 mvp
        nllb-moe nougat pegasus pegasus_x pix2struct pix2struct_text_model plbart pop2piano pp_formulanet
        pp_formulanet_text prophetnet rag seamless_m4t seamless_m4t_v2 speech-encoder-decoder speech_to_text
        speecht5 switch_transformers t5 t5_gemma_module t5gemma t5gemma2 t5gemma2_decoder t5gemma2_encoder
        t5gemma2_text trocr udop umt5 vision-encoder-decoder
    """,
    "an encoder of text together with images or sound, which writes no text": """
        aimv2 align altclip bridgetower chinese_clip clap clip clipseg flava flava_multimodal_model groupvit
        lxmert metaclip_2 modernvbert neomme pe_audio pe_audio_video pe_video perceiver siglip siglip2 tipsv2
        tvp ultravbert videoprism vilt vision-text-dual-encoder visual_bert xclip
    """,
    "a vision model, or the part of a whole that sees": """
        aimv2_vision_model align_vision_model altclip_vision_model beit bit blip_2_vision_model
        blip_vision_model bridgetower_vision_model chameleon_vqgan chmv2 clip_vision_model clipseg_vision_model
        cohere_compass_vision conditional_detr convnext convnextv2 cvt d_fine dab-detr data2vec-vision
        deepseek_ocr2_encoder deepseek_ocr2_sam_vision_model deepseek_ocr2_vision deformable_detr deimv2 deit
        depth_anything depth_pro detr dinat dinov2 dinov2_with_registers dinov3_convnext dinov3_vit donut-swin
        dots3_note_vision_encoder dpt edgetam edgetam_mask_decoder edgetam_prompt_encoder edgetam_video
        edgetam_video_mask_decoder edgetam_video_prompt_encoder edgetam_vision_model efficientloftr efficientnet
        emu3_vqgan eomt eomt_dinov3 ernie4_5_vl_moe_vision flava_image_codebook flava_image_model
        florence_vision focalnet gemma3n_vision gemma4_unified_vision glm_image_vision glm_image_vqmodel glpn
        got_ocr2_vision grounding-dino groupvit_vision_model hgnet_v2 hiera idefics_vision ijepa inkling_vision
        instructblip_vision_model instructblipvideo_vision_model janus_vision_model janus_vqgan levit lightglue
        lw_detr lw_detr_vit mask2former maskformer maskformer-swin metaclip_2_vision_model mgp-str mlcd
        mlcd_vision_model mm-grounding-dino mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2 molmo2_vision
        omdet-turbo oneformer owlv2 owlv2_vision_model owlvit owlvit_vision_model pe_audio_video_encoder
        pe_video_encoder phi4_multimodal_vision pixio poolformer pp_chart2table_vision pp_doclayout_v2
        pp_doclayout_v3 pp_doclayout_v4 pp_formulanet_vision pp_lcnet pp_lcnet_v3 pp_lcnet_v4
        pp_ocrv5_mobile_det pp_ocrv5_mobile_rec pp_ocrv5_server_det pp_ocrv5_server_rec pp_ocrv6_medium_det
        pp_ocrv6_small_det pp_ocrv6_small_rec pp_ocrv6_tiny_rec prompt_depth_anything pvt pvt_v2 radio regnet
        resnet rf_detr rf_detr_dinov2 rt_detr rt_detr_resnet rt_detr_v2 sam sam2 sam2_hiera_det_model
        sam2_mask_decoder sam2_prompt_encoder sam2_video sam2_video_mask_decoder sam2_video_prompt_encoder
        sam2_vision_model sam3 sam3_detr_decoder sam3_detr_encoder sam3_geometry_encoder sam3_lite_text
        sam3_lite_text_detr_decoder sam3_lite_text_detr_encoder sam3_lite_text_geometry_encoder
        sam3_lite_text_mask_decoder sam3_mask_decoder sam3_tracker sam3_tracker_mask_decoder
        sam3_tracker_prompt_encoder sam3_tracker_video sam3_tracker_video_mask_decoder
        sam3_tracker_video_prompt_encoder sam3_video sam3_vision_model sam3_vit_model sam_hq sam_hq_mask_decoder
        sam_hq_prompt_encoder sam_hq_vision_model sam_mask_decoder sam_prompt_encoder sam_vision_model sapiens2
        sapiens2_head segformer seggpt siglip2_vision_model siglip_vision_model slanet slanext slanext_vision
        step3p5_vision superglue superpoint swiftformer swin swin2sr swinv2 table-transformer textnet
        timesformer timm_backbone timm_wrapper tipsv2_dpt tipsv2_vision_model unlimited_ocr_sam_vision_model
        unlimited_ocr_vision unlimited_ocr_vision_encoder upernet uvdoc uvdoc_backbone videomae videomt
        videoprism_vision_model vit vit_mae vit_msn vitdet vitmatte vitpose vitpose_backbone vivit vjepa2
        xclip_vision_model yolos zoedepth
    """,
    "an audio model, or the part of a whole that hears or speaks": """
        audio-spectrogram-transformer bark clap_audio_model clvp csm dac data2vec-audio dia_encoder
        dots3_note_audio_encoder encodec fastspeech2_conformer fastspeech2_conformer_hifigan
        fastspeech2_conformer_with_hifigan gemma3n_audio gemma4_audio gemma4_unified_audio gradium_phonon_tts
        granite_speech5_ctc granite_speech5_encoder higgs_audio_v2 higgs_audio_v2_tokenizer hubert inkling_audio
        lasr_ctc lasr_encoder mimi mimi_decoder mimi_encoder moonshine_streaming_encoder musicgen
        musicgen_decoder musicgen_melody musicgen_melody_decoder nemotron3_5_asr
        nemotron3_5_transcribe_asr_audio nemotron3_5_transcribe_audio nemotron3_5_transcribe_word_timestamp
        nemotron3_diarization nemotron3_diarization_audio nemotron_asr_streaming nemotron_asr_streaming_encoder
        neucodec parakeet_ctc parakeet_encoder parakeet_rnnt parakeet_tdt pe_audio_encoder phi4_multimodal_audio
        pocket_tts pocket_tts_audio_tokenizer pocket_tts_audio_tokenizer_decoder
        pocket_tts_audio_tokenizer_encoder qwen2_5_omni_bigvgan qwen2_5_omni_token2wav sew sew-d
        speecht5_hifigan unispeech unispeech-sat univnet vibevoice vibevoice_acoustic_tokenizer
        vibevoice_acoustic_tokenizer_decoder vibevoice_acoustic_tokenizer_encoder vits wav2vec2 wav2vec2-bert
        wav2vec2-conformer wavlm xcodec xcodec2
    """,
    "a diffusion model, which writes by removing noise instead of token after token": """
        diffusion_gemma diffusion_gemma_text glm_image glm_image_text qwen2_5_omni_dit vibevoice_diffusion
    """,
    "a forecaster of time series": """
        autoformer informer patchtsmixer patchtst time_series_transformer timesfm timesfm2_5
    """,
    "a model of proteins": """
        esm esmc esmfold2 evolla
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

"""Records word timestamps of OpenAI's package (openai-whisper), with the weights of a
transformers folder: whisper_words.py FOLDER OUT.json CLIP...

OUT.json: {clip: {"segments": [{start, end, text, words: [[text, start, end, probability]]}]}}, from
transcribe(word_timestamps=True, temperature=0). The script also prints the result of transformers'
return_timestamps="word"; it differs, because transformers computes other attention weights
(timestamp tokens included, no cut at the end of the audio) and does not limit word lengths.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np
import soundfile
import torch
import whisper
from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration, WhisperTokenizerFast

PARTS = [
    (".self_attn_layer_norm.", ".attn_ln."), (".encoder_attn_layer_norm.", ".cross_attn_ln."), (".final_layer_norm.", ".mlp_ln."),
    (".fc1.", ".mlp.0."), (".fc2.", ".mlp.2."), (".encoder_attn.", ".cross_attn."), (".self_attn.", ".attn."),
    (".q_proj.", ".query."), (".k_proj.", ".key."), (".v_proj.", ".value."), (".out_proj.", ".out."), (".layers.", ".blocks."),
    ("encoder.layer_norm.", "encoder.ln_post."), ("decoder.layer_norm.", "decoder.ln."),
    ("decoder.embed_tokens.", "decoder.token_embedding."), (".embed_positions.weight", ".positional_embedding"),
]


def openai_model(hf):
    c = hf.config
    model = whisper.model.Whisper(whisper.model.ModelDimensions(
        n_mels=c.num_mel_bins, n_audio_ctx=c.max_source_positions, n_audio_state=c.d_model, n_audio_head=c.encoder_attention_heads,
        n_audio_layer=c.encoder_layers, n_vocab=c.vocab_size, n_text_ctx=c.max_target_positions, n_text_state=c.d_model,
        n_text_head=c.decoder_attention_heads, n_text_layer=c.decoder_layers))
    state = {}
    for name, value in hf.model.state_dict().items():
        for theirs, openai in PARTS:
            name = name.replace(theirs, openai)
        state[name] = value
    model.load_state_dict(state)
    heads = torch.zeros(c.decoder_layers, c.decoder_attention_heads, dtype=torch.bool)
    for layer, head in hf.generation_config.alignment_heads:
        heads[layer, head] = True
    model.register_buffer("alignment_heads", heads.to_sparse(), persistent=False)
    return model.eval()


def transformers_words(hf, extractor, tokenizer, samples):
    features = extractor(samples, sampling_rate=16000, return_tensors="pt", return_attention_mask=True)
    with torch.no_grad():
        out = hf.generate(features.input_features, return_timestamps=True, return_token_timestamps=True, num_frames=len(samples) // 160,
                          return_dict_in_generate=True, num_beams=1, do_sample=False)
    ids, times = out["sequences"][0].tolist(), out["token_timestamps"][0].tolist()
    return [(tokenizer.decode([i]), round(t, 2)) for i, t in zip(ids, times)]


def hear_as_transformers(extractor, samples):
    """Makes OpenAI's code pad short audio with silence, as transformers does, instead of padding
    the features with zeros."""
    features = extractor(samples, sampling_rate=16000, return_tensors="pt", padding="max_length" if len(samples) < 480000 else "longest",
                         truncation=False).input_features[0]
    calls = []

    def pad_or_trim(segment, length):
        calls.append(segment.shape)
        return features[:, :length] if len(calls) == 1 else whisper.pad_or_trim(segment, length)

    sys.modules["whisper.transcribe"].pad_or_trim = pad_or_trim


def main(folder, out, clips):
    hf = WhisperForConditionalGeneration.from_pretrained(folder, attn_implementation="eager").float().eval()
    extractor = WhisperFeatureExtractor.from_pretrained(folder)
    tokenizer = WhisperTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json")
    model = openai_model(hf)
    known = {}
    for clip in clips:
        samples, rate = soundfile.read(clip, dtype="float32")
        assert rate == 16000, f"{clip}: {rate} samples a second, expected 16000"
        hear_as_transformers(extractor, samples)
        said = whisper.transcribe(model, samples, word_timestamps=True, temperature=0.0, fp16=False, language="en")
        known[Path(clip).name] = {"segments": [
            {"start": round(s["start"], 2), "end": round(s["end"], 2), "text": s["text"],
             "words": [[w["word"], round(float(w["start"]), 2), round(float(w["end"]), 2), round(float(w["probability"]), 4)] for w in s["words"]]}
            for s in said["segments"]]}
        print(clip, [(w[0], w[1], w[2]) for s in known[Path(clip).name]["segments"] for w in s["words"]])
        try:
            print("  transformers:", transformers_words(hf, extractor, tokenizer, samples))
        except Exception as error:
            print("  transformers:", repr(error))
    lines = json.dumps(known, ensure_ascii=False, indent=1)
    Path(out).write_text(re.sub(r"\[\n\s+(\".*?\"),\n\s+([\d.]+),\n\s+([\d.]+),\n\s+([\d.]+)\n\s+\]", r"[\1, \2, \3, \4]", lines) + "\n")


main(sys.argv[1], sys.argv[2], sys.argv[3:])

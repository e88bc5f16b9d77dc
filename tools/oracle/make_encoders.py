#!/usr/bin/env python3
"""Makes the encoders and cross-encoders of tests/fixtures/encoders: random weights in bf16 and the
results of transformers in float32.

  python tools/oracle/make_encoders.py tests/fixtures/encoders [NAME ...] [--seed N]
                                       [--sizes narrow|wide] [--f32]

--seed, --sizes (odd head sizes, windows and widths) and --f32 (weights in float32) make variants
for other folders.

NAME/config.json, model.safetensors, tokenizer.json   as transformers writes them
NAME/modules.json, 1_Pooling ...   as sentence-transformers writes them; absent for cross-encoders
NAME/reference.json   "cases": input_ids; token_type_ids if the model has them; "rows": {index:
    [first 8 numbers, last 8]} of some rows of the last hidden state; "embedding": the result of
    modules.json. For cross-encoders: "query", "document", "logit" and "score" (the activation of
    the folder applied to the logit).
"""
import argparse
import json
import os
import pathlib

os.environ["HF_HUB_OFFLINE"] = "1"
import jina_bert
import safetensors.torch
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

WORDS = "the a of to rain sun bird thrush song river what is was in night day forest sings light green noon by".split()
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,?!-"
TEXTS = ["", "The thrush sings at night.", "rain by noon", "What is a veery? A bird of the forest!", "sun " * 28]
PAIRS = [("what is a thrush", "A thrush is a bird."), ("what is a thrush", ""), ("rain", "The river was green " * 5),
         ("x", "y"), ("what sings in the forest?", "rain is expected by noon")]
COMMON = {"vocab_size": 160, "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BERT = COMMON | {"hidden_size": 48, "intermediate_size": 72, "num_hidden_layers": 3, "num_attention_heads": 4}
JINA = BERT | {"num_attention_heads": 6, "position_embedding_type": "alibi", "feed_forward_type": "geglu",
               "hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2}
MODERN = COMMON | {"hidden_size": 48, "intermediate_size": 60, "num_hidden_layers": 4, "num_attention_heads": 4,
                   "local_attention": 8, "global_attn_every_n_layers": 3, "cls_token_id": 1, "sep_token_id": 2}
ROBERTA = BERT | {"max_position_embeddings": 130, "pad_token_id": 1, "bos_token_id": 0, "type_vocab_size": 1}
GEMMA = COMMON | {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 3,
                  "num_key_value_heads": 1, "head_dim": 16, "query_pre_attn_scalar": 20, "sliding_window": 10,
                  "use_bidirectional_attention": True,
                  "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]}
GEMMA2 = COMMON | {"hidden_size": 40, "intermediate_size": 56, "num_hidden_layers": 4, "num_attention_heads": 4,
                   "num_key_value_heads": 2, "head_dim": 12, "global_head_dim": 20, "num_global_key_value_heads": 1,
                   "sliding_window": 6, "hidden_size_per_layer_input": 10, "embedding_dim": 30,
                   "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]}
QWEN = COMMON | {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
                 "num_key_value_heads": 2, "head_dim": 16, "tie_word_embeddings": True}
# Alternative sizes: heads, head sizes, layers etc. that are not multiples of 8 or of each other.
WINDOW, FULL = "sliding_attention", "full_attention"
SIZES = {"usual": {}, "narrow": {
    "Bert": {"hidden_size": 50, "intermediate_size": 77, "num_hidden_layers": 2, "num_attention_heads": 5},
    "JinaBert": {"hidden_size": 66, "intermediate_size": 51, "num_hidden_layers": 2, "num_attention_heads": 11},
    "ModernBert": {"hidden_size": 70, "intermediate_size": 53, "num_hidden_layers": 5, "num_attention_heads": 7,
        "local_attention": 4, "global_attn_every_n_layers": 2},
    "XLMRoberta": {"hidden_size": 42, "intermediate_size": 61, "num_hidden_layers": 4, "num_attention_heads": 3},
    "Gemma3Text": {"hidden_size": 45, "intermediate_size": 67, "num_hidden_layers": 3, "num_attention_heads": 5,
        "num_key_value_heads": 5, "head_dim": 18, "query_pre_attn_scalar": 7, "sliding_window": 5,
        "layer_types": [WINDOW, FULL, WINDOW]},
    "EmbeddingGemma2Text": {"hidden_size": 55, "intermediate_size": 71, "num_hidden_layers": 5, "num_attention_heads": 5,
        "num_key_value_heads": 5, "head_dim": 22, "global_head_dim": 14, "sliding_window": 9,
        "hidden_size_per_layer_input": 7, "embedding_dim": 33,
        "layer_types": [WINDOW, FULL, WINDOW, WINDOW, FULL]},
    "Qwen3": {"hidden_size": 49, "intermediate_size": 81, "num_hidden_layers": 3, "num_attention_heads": 7,
        "num_key_value_heads": 1, "head_dim": 18},
}, "wide": {
    "Bert": {"hidden_size": 156, "intermediate_size": 301, "num_hidden_layers": 1, "num_attention_heads": 13},
    "JinaBert": {"hidden_size": 130, "intermediate_size": 173, "num_hidden_layers": 4, "num_attention_heads": 5},
    "ModernBert": {"hidden_size": 132, "intermediate_size": 211, "num_hidden_layers": 6, "num_attention_heads": 3,
        "local_attention": 16},
    "XLMRoberta": {"hidden_size": 154, "intermediate_size": 203, "num_hidden_layers": 2, "num_attention_heads": 7},
    "Gemma3Text": {"hidden_size": 126, "intermediate_size": 171, "num_attention_heads": 9, "num_key_value_heads": 3,
        "head_dim": 14, "query_pre_attn_scalar": 33, "sliding_window": 31},
    "EmbeddingGemma2Text": {"hidden_size": 91, "intermediate_size": 101, "num_attention_heads": 7, "num_key_value_heads": 7,
        "head_dim": 10, "global_head_dim": 30, "sliding_window": 17, "hidden_size_per_layer_input": 21,
        "embedding_dim": 65},
    "Qwen3": {"hidden_size": 108, "intermediate_size": 191, "num_attention_heads": 9, "num_key_value_heads": 3,
        "head_dim": 34},
}}  # fmt: skip
BIASES = {"attention_bias": True, "mlp_bias": True, "norm_bias": True, "global_attn_every_n_layers": 2}
# name: (family, class suffix, configuration, tokenizer, pooling (None: cross-encoder), widths of
# dense layers)
ENCODERS = {
    "bert-mean": ("Bert", "Model", BERT, "wordpiece", "mean_tokens", ()),
    "xlmr-cls": ("XLMRoberta", "Model", ROBERTA, "unigram", "cls_token", ()),
    "modernbert-mean": ("ModernBert", "Model", MODERN, "bytes", "mean_tokens", ()),
    "modernbert-bias": ("ModernBert", "Model", MODERN | BIASES, "bytes", "cls_token", ()),
    "nomicbert-mean": ("NomicBert", "Model", BERT, "wordpiece", "mean_tokens", ()),
    "embeddinggemma": ("Gemma3Text", "Model", GEMMA, "bytes", "mean_tokens", (80, 48)),
    "qwen3-embedding": ("Qwen3", "Model", QWEN, "bytes", "lasttoken", ()),
    "bert-rerank": ("Bert", "ForSequenceClassification", BERT, "wordpiece", None, ()),
    "xlmr-rerank": ("XLMRoberta", "ForSequenceClassification", ROBERTA, "unigram", None, ()),
    "modernbert-rerank": ("ModernBert", "ForSequenceClassification",
                          MODERN | {"classifier_pooling": "mean"}, "bytes", None, ()),
    "qwen3-reranker": ("Qwen3", "ForCausalLM", QWEN | {"max_position_embeddings": 1024}, "chat", None, ()),
    "qwen3-reranker-label": ("Qwen3", "ForSequenceClassification", QWEN | {"max_position_embeddings": 1024}, "chat",
                             None, ()),
    "jinabert-mean": ("JinaBert", "Model", JINA, "wordpiece", "mean_tokens", ()),
    "embeddinggemma2": ("EmbeddingGemma2Text", "Model", GEMMA2, "bytes", "mean_tokens", ()),
}
# The prompt from the model card of Qwen3-Reranker.
RERANK_PROMPT = ('<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct '
         'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web '
         "search query, retrieve relevant passages that answer the query\n<Query>: {}\n<Document>: {}<|im_end|>\n"
         "<|im_start|>assistant\n<think>\n\n</think>\n\n")
# Activation keys in config.json of cross-encoders; the default activation is a sigmoid.
IDENTITY = {"bert-rerank": {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}}


def tokenizer_of(kind):
    """Returns a tokenizer of type `kind` with at most COMMON["vocab_size"] tokens."""
    special = ["<s>", "<pad>", "</s>", "<unk>"] if kind == "unigram" else ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
    first, last = (special[0], special[2]) if kind == "unigram" else special[1:3]
    if kind == "wordpiece":
        vocabulary = special + WORDS + list(LETTERS) + ["##" + letter for letter in LETTERS if letter.isalnum()]
        made = tokenizers.Tokenizer(models.WordPiece({t: i for i, t in enumerate(vocabulary)}, unk_token="[UNK]"))
        made.normalizer = normalizers.BertNormalizer(lowercase=True)
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.decoder = decoders.WordPiece()
    elif kind == "unigram":
        pieces = [(token, 0.0) for token in special]
        pieces += [("\u2581" + word, -4.0 - i / 8) for i, word in enumerate(WORDS)]
        pieces += [(letter, -8.0 - i / 16) for i, letter in enumerate("\u2581" + LETTERS + "TWARS")]
        made = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=3))
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Metaspace()
    else:
        letters = ["\u0120"] + [chr(i) for i in range(33, 127)]
        merges = [("\u0120", "t"), ("h", "e"), ("i", "n"), ("\u0120t", "he"), ("r", "a"), ("ra", "in"), ("i", "s")]
        if kind == "chat":
            letters.append("\u010a")
            merges += [("y", "e"), ("ye", "s"), ("n", "o")]
        tokens = special + letters + [a + b for a, b in merges]
        made = tokenizers.Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
    made.add_special_tokens(special)
    if kind == "chat":
        made.add_special_tokens(["<|im_start|>", "<|im_end|>"])
        made.add_tokens(["<think>", "</think>"])
    second = 1 if kind == "wordpiece" else 0
    between = f"{last} {last}" if kind == "unigram" else last
    made.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", pair=f"{first} $A {between} $B:{second} {last}:{second}",
        special_tokens=[(token, made.token_to_id(token)) for token in (first, last)])
    assert made.get_vocab_size() <= COMMON["vocab_size"], made.get_vocab_size()
    return made


def rounded(tensor, dtype):
    return tensor.to(dtype).float()


def fill(model, generator, dtype, embedding=1.0):
    """Fills every tensor with values that differ enough from its usual initial value to change the
    output."""
    scalars = [(n, v) for n, v in model.named_buffers() if n.endswith("layer_scalar")]
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *scalars]:
            noise = torch.randn(value.shape, generator=generator)
            if value.dim() < 2:
                usual = 1.0 if ("norm" in name.lower() and name.endswith("weight")) or "scalar" in name else 0.0
                if model.config.model_type == "gemma3_text":
                    usual = 0.0
                value.copy_(usual + 0.2 * noise)
            else:
                value.copy_(noise * (embedding if "embed" in name else 1.5 / value.shape[-1] ** 0.5))
            value.copy_(rounded(value, dtype))


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n")


def write_modules(folder, width, pooling, dense, dtype):
    names = ["", "1_Pooling"] + [f"{i + 2}_Dense" for i in range(len(dense))] + [f"{len(dense) + 2}_Normalize"]
    kinds = ["Transformer", "Pooling"] + ["Dense"] * len(dense) + ["Normalize"]
    write_json(folder / "modules.json", [
        {"idx": i, "name": str(i), "path": name, "type": "sentence_transformers.models." + kind}
        for i, (name, kind) in enumerate(zip(names, kinds, strict=True))])  # fmt: skip
    write_json(folder / "1_Pooling/config.json",
               {"word_embedding_dimension": width, "pooling_mode_" + pooling: True})
    for i, weight in enumerate(dense):
        place = folder / f"{i + 2}_Dense"
        write_json(place / "config.json", {
            "in_features": weight.shape[1], "out_features": weight.shape[0], "bias": False,
            "activation_function": "torch.nn.modules.linear.Identity"})  # fmt: skip
        safetensors.torch.save_file({"linear.weight": weight.to(dtype)}, place / "model.safetensors")


def numbers(tensor):
    return [float(f"{x:.7g}") for x in tensor.tolist()]


def run(model, encoding, typed):
    inputs = {"input_ids": torch.tensor([encoding.ids])}
    case = {"input_ids": encoding.ids}
    if typed:
        case["token_type_ids"] = encoding.type_ids
        inputs["token_type_ids"] = torch.tensor([encoding.type_ids])
    with torch.no_grad():
        out = model(**inputs, output_hidden_states=True)
    hidden = out.hidden_states[-1][0] if "logits" in out else out.last_hidden_state[0]
    count = len(encoding.ids)
    case["rows"] = {str(i): [numbers(hidden[i, :8]), numbers(hidden[i, -8:])]
                    for i in sorted({0, 1, count // 2, count - 1})}
    return case, hidden, out


def late_interaction(rows):
    """Returns ColBERT's late-interaction scores (arXiv:2004.12832): the sum over rows of the query
    of the largest cosine to a row of the document. The query is the second text; each text is a
    document."""
    rows = [(x / x.norm(dim=1, keepdim=True)).double().numpy() for x in rows]
    return [float((rows[1] @ other.T).max(axis=1).sum()) for other in rows]


def make(folder, name, seed, sizes, dtype):
    family, head, settings, kind, pooling, dense = ENCODERS[name]
    source = jina_bert if family == "JinaBert" else transformers
    config = getattr(source, family + "Config")(**(settings | SIZES[sizes].get(family.removeprefix("Nomic"), {})))
    if pooling is None:
        config.num_labels = 1
    config._attn_implementation = "eager"
    model = getattr(source, family + head)(config).eval()
    generator = torch.Generator().manual_seed(seed)
    fill(model, generator, dtype, 0.1 if kind == "chat" else 1.0)
    tokenizer = tokenizer_of(kind)
    first_width = getattr(config, "embedding_dim", config.hidden_size)
    layers, width, hiddens = [], first_width, []
    for out in dense:
        layers.append(rounded(torch.randn(out, width, generator=generator) / width**0.5, dtype))
        width = out
    cases = []
    typed = family in ("Bert", "NomicBert", "JinaBert")
    for text in TEXTS if pooling else PAIRS:
        encoding = tokenizer.encode(text) if pooling else tokenizer.encode(*text)
        if kind == "chat":
            encoding = tokenizer.encode(RERANK_PROMPT.format(*text), add_special_tokens=False)
        case, hidden, out = run(model, encoding, typed)
        hiddens.append(hidden)
        if pooling:
            row = {"mean_tokens": hidden.mean(0), "cls_token": hidden[0], "lasttoken": hidden[-1]}[pooling]
            for layer in layers:
                row = layer @ row
            case = {"text": text} | case | {"embedding": numbers(torch.nn.functional.normalize(row, dim=0))}
        else:
            logit = out.logits[0, 0]
            if head == "ForCausalLM":
                yes, no = (out.logits[0, -1, tokenizer.token_to_id(token)] for token in ("yes", "no"))
                logit = yes - no
            score = logit if name in IDENTITY else torch.sigmoid(logit)
            case = {"query": text[0], "document": text[1]} | case
            case |= {"logit": logit.item(), "score": score.item()}
        cases.append(case)
    model.to(dtype).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    os.chmod(folder / "model.safetensors", 0o644)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    if pooling:
        write_modules(folder, first_width, pooling, layers, dtype)
    elif name in IDENTITY:
        path = folder / "config.json"
        write_json(path, json.loads(path.read_text()) | IDENTITY[name])
    versions = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
    reference = {"oracle": versions, "cases": cases}
    if pooling and not dense:
        reference["late_interaction"] = late_interaction(hiddens)
    (folder / "reference.json").write_text(json.dumps(reference) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="model to make (default: all)")
    parser.add_argument("--seed", type=int, default=20261100)
    parser.add_argument("--sizes", choices=SIZES, default="usual")
    parser.add_argument("--f32", action="store_true")
    given = parser.parse_args()
    for name in given.names or ENCODERS:
        seed = given.seed + list(ENCODERS).index(name)
        make(given.folder / name, name, seed, given.sizes, torch.float32 if given.f32 else torch.bfloat16)


main()

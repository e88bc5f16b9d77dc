"""Writes a model of random weights and byte tokens, so that the program can be tested without real ones."""
import random
import struct

DIM, HIDDEN, LAYERS, CONTEXT = 32, 48, 2, 64
BOS, EOS = 256, 257
REPEATED = 1 << 16  # random weights per matrix; larger matrices repeat them
STRING, ARRAY = 8, 9
TYPES = {int: (4, "<I"), float: (6, "<f"), bool: (7, "<?")}


def byte_letters():
    """Returns the letters that byte-level vocabularies use for bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    letters = {byte: chr(byte) for byte in plain}
    letters.update({byte: chr(256 + i) for i, byte in enumerate(others)})
    return [letters[byte] for byte in range(256)]


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def typed(value):
    if isinstance(value, str):
        return STRING, text(value)
    if isinstance(value, list):
        kinds, items = zip(*(typed(item) for item in value)) if value else ((STRING,), ())
        return ARRAY, struct.pack("<IQ", kinds[0], len(items)) + b"".join(items)
    kind, form = TYPES[type(value)]
    return kind, struct.pack(form, value)


def metadata(chat_template, context, dim, hidden, tokens=()):
    values = {
        "general.architecture": "llama",
        "llama.block_count": LAYERS,
        "llama.context_length": context,
        "llama.embedding_length": dim,
        "llama.feed_forward_length": hidden,
        "llama.attention.head_count": 2,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [*byte_letters(), "<s>", "</s>", *tokens],
        "tokenizer.ggml.token_type": [*[1] * 256, 3, 3, *[4] * len(tokens)],
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.bos_token_id": BOS,
        "tokenizer.ggml.eos_token_id": EOS,
        "tokenizer.ggml.add_bos_token": True,
    }
    if chat_template:
        values["tokenizer.chat_template"] = chat_template
    return values


def shapes(dim, hidden, tied=True, vocabulary=258):
    """Yields (name, columns, rows); norms have one row."""
    yield "token_embd.weight", dim, vocabulary
    if not tied:
        yield "output.weight", dim, vocabulary
    yield "output_norm.weight", dim, 1
    for layer in range(LAYERS):
        for part, columns, rows in [
            ("attn_norm", dim, 1), ("attn_q", dim, dim), ("attn_k", dim, dim),
            ("attn_v", dim, dim), ("attn_output", dim, dim), ("ffn_norm", dim, 1),
            ("ffn_gate", dim, hidden), ("ffn_up", dim, hidden), ("ffn_down", hidden, dim),
        ]:  # fmt: skip
            yield f"blk.{layer}.{part}.weight", columns, rows


def write(path, chat_template=None, context=CONTEXT, changed=None, dim=DIM, hidden=HIDDEN, seed=5, tied=True, tokens=()):
    """`changed`: overrides of the metadata. `tied`: the embedding is the output head; otherwise it stays in the
    mapped file. `tokens`: further tokens after the 258 default ones."""
    numbers = random.Random(seed)
    values = {**metadata(chat_template, context, dim, hidden, tokens), **(changed or {})}
    infos, data = b"", b""
    count = 0
    for name, columns, rows in shapes(dim, hidden, tied, 258 + len(tokens)):
        data += bytes(-len(data) % 32)
        sizes = [columns] if rows == 1 else [columns, rows]
        infos += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, 0, len(data))
        size = columns * rows
        weights = [1.0 if rows == 1 else numbers.gauss(0, columns**-0.5) for _ in range(min(size, REPEATED))]
        block = struct.pack(f"<{len(weights)}f", *weights)
        data += (block * -(-size // len(weights)))[:4 * size]
        count += 1
    head = b"GGUF" + struct.pack("<IQQ", 3, count, len(values))
    for key, value in values.items():
        kind, encoded = typed(value)
        head += text(key) + struct.pack("<I", kind) + encoded
    head += infos
    path.write_bytes(head + bytes(-len(head) % 32) + data)

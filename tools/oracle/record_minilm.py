#!/usr/bin/env python3
"""Records the embeddings of all-MiniLM-L6-v2 for 500 texts, for tests/tasks/minilm_model_test.cc.

  python tools/oracle/record_minilm.py FOLDER OUT        (OUT: tests/fixtures/minilm)

FOLDER: the model (scripts/models.sh minilm). OUT/texts.json: the texts. OUT/reference.json: the
versions of the libraries. OUT/embeddings.f16: [500, 384] little-endian f16, the mean of the last
hidden states in float32, scaled to length 1.
"""
import json
import pathlib
import random
import sys

import numpy
import tokenizers
import torch
import transformers

COUNT, LONGEST = 500, 256
MARKS = [", ", "; ", " - ", "... ", "! ", "? ", "\n", "\t", " (", ") ", ' "', "/", " & "]
OTHER_SCRIPTS = ["\u00e9t\u00e9", "\u00fcber", "\u65e5\u672c\u8a9e", "\u043c\u0438\u0440", "\u05e9\u05dc\u05d5\u05dd",
           "\u0645\u0631\u062d\u0628\u0627", "\u0928\u092e\u0938\u094d\u0924\u0947", "\U0001f426", "\u00bd", "\u2260",
           "\ufb01n", "e\u0301", "\u200b", "\ud55c\uae00"]  # fmt: skip
CODE = ["for (int i = 0; i < n; ++i) sum += x[i];", "def f(a, b=3): return a**b", "SELECT id FROM birds WHERE song = 'veery';",
        "https://example.org/a?b=c#d", "C:\\temp\\x.txt", "{\"key\": [1, 2.5, null]}", "x^2 + y^2 = r^2"]  # fmt: skip


def texts_of(prose):
    """Returns COUNT distinct texts: sentences, paragraphs, words, numbers, other scripts, code, and
    mixtures."""
    draw = random.Random(20261124)
    sentences = [one.strip() for one in prose.replace("\n", " ").split(". ") if one.strip()]
    words = prose.split()
    texts = ["", " ", "a", "."] + CODE + OTHER_SCRIPTS + sentences[:80]
    texts = list(dict.fromkeys(texts))
    while len(texts) < COUNT:
        kind = draw.randrange(5)
        if kind == 0:
            texts.append(" ".join(draw.choices(words, k=draw.randint(1, 12))))
        elif kind == 1:
            begin = draw.randrange(len(sentences) - 9)
            texts.append(". ".join(sentences[begin : begin + draw.randint(2, 9)]))
        elif kind == 2:
            texts.append("".join(draw.choice(words + OTHER_SCRIPTS) + draw.choice(MARKS) for _ in range(draw.randint(2, 20))))
        elif kind == 3:
            texts.append(f"{draw.choice(words)} {draw.uniform(-1e4, 1e4):.{draw.randint(0, 4)}f} {draw.choice(CODE)}")
        else:
            texts.append(draw.choice(sentences).upper() if draw.random() < 0.5 else draw.choice(sentences)[::-1])
        if texts[-1] in texts[:-1]:
            texts.pop()
    return texts


def main():
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    prose = (out.parent / "text.txt").read_text()
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    texts, rows = texts_of(prose), []
    for text in texts:
        ids = torch.tensor([tokenizer.encode(text).ids])
        with torch.no_grad():
            hidden = model(input_ids=ids, token_type_ids=torch.zeros_like(ids)).last_hidden_state[0]
        rows.append(torch.nn.functional.normalize(hidden.mean(0), dim=0).numpy())
    out.mkdir(exist_ok=True)
    numpy.stack(rows).astype("<f2").tofile(out / "embeddings.f16")
    (out / "texts.json").write_text(json.dumps(texts, indent=0) + "\n")
    versions = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
    (out / "reference.json").write_text(json.dumps({"oracle": versions, "texts": COUNT, "columns": 384}) + "\n")


main()

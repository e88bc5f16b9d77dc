"""Runs mlx-lm for veery: one JSON object per line, requests on standard input, replies on standard output.

{"op": "load", "model": PATH} -> {"ok": true, "model_type", "vocab_size", "layers", "hidden_size"}
{"op": "generate", "prompt": TEXT, OPTIONS} or {"op": "chat", "messages": [...], OPTIONS}
    -> {"text": PIECE} ..., {"done": true, "finish_reason", "prompt_tokens", "tokens"}
    OPTIONS: max_tokens, temperature, top_k, top_p, seed
{"op": "info"} -> as load; {"op": "cancel"} cancels the current answer; {"op": "quit"} ends the program.
An error is {"error": TEXT}; the program then continues with the next request.
"""
import json
import os
import queue
import sys
import threading

# Output that libraries print must not mix with the replies.
replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)

requests = queue.Queue()
cancelled = threading.Event()


def reply(**fields):
    replies.write(json.dumps(fields) + "\n")
    replies.flush()


def read_requests():
    for line in sys.stdin:
        try:
            request = json.loads(line)
        except ValueError:
            request = {"op": None}
        if request.get("op") == "cancel":
            cancelled.set()
        else:
            requests.put(request)
    requests.put({"op": "quit"})


class Backend:
    def __init__(self):
        self.model = self.tokenizer = None
        self.about = {}

    def load(self, request):
        import mlx_lm

        self.model, self.tokenizer = mlx_lm.load(request["model"])
        arguments = getattr(self.model, "args", None)
        inner = getattr(arguments, "text_config", None) or {}

        def number(*names):
            for name in names:
                found = getattr(arguments, name, None) or inner.get(name)
                if isinstance(found, int):
                    return found
            return 0

        self.about = {
            "model_type": str(getattr(self.model, "model_type", None) or getattr(arguments, "model_type", "")),
            "vocab_size": number("vocab_size"),
            "layers": number("num_hidden_layers", "n_layers"),
            "hidden_size": number("hidden_size", "dim"),
        }
        self.info(request)

    def info(self, _):
        reply(ok=True, **self.about)

    def generate(self, request):
        self.answer(request["prompt"], request)

    def chat(self, request):
        if self.tokenizer is not None and not getattr(self.tokenizer, "chat_template", None):
            raise ValueError("the model has no chat template")
        self.answer(lambda: self.tokenizer.apply_chat_template(request["messages"], add_generation_prompt=True), request)

    def answer(self, prompt, request):
        if self.model is None:
            raise ValueError("no model is loaded")
        import mlx.core
        from mlx_lm import stream_generate
        from mlx_lm.sample_utils import make_sampler

        mlx.core.random.seed(request.get("seed", 0))
        sampler = make_sampler(temp=request.get("temperature", 0), top_p=request.get("top_p", 1), top_k=request.get("top_k", 0))
        prompt = prompt() if callable(prompt) else prompt
        cancelled.clear()
        last, reason = None, "length"
        for last in stream_generate(self.model, self.tokenizer, prompt, max_tokens=request.get("max_tokens", 128), sampler=sampler):
            if last.text:
                reply(text=last.text)
            if cancelled.is_set():
                reason = "cancelled"
                break
        if reason != "cancelled" and last is not None:
            reason = last.finish_reason or "length"
        reply(done=True, finish_reason=reason, prompt_tokens=last.prompt_tokens if last else 0,
              tokens=last.generation_tokens if last else 0)  # fmt: skip


def main():
    threading.Thread(target=read_requests, daemon=True).start()
    backend = Backend()
    known = {"load": backend.load, "info": backend.info, "generate": backend.generate, "chat": backend.chat}
    while (request := requests.get()).get("op") != "quit":
        try:
            known[request.get("op")](request)
        except KeyError as error:
            reply(error=f"unknown request or field {error}")
        except Exception as error:
            reply(error=f"{type(error).__name__}: {error}")


main()

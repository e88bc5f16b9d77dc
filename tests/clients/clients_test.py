#!/usr/bin/env python3
"""Unmodified clients from PyPI against a live `veery serve` with SmolLM2-135M-Instruct and a tiny encoder.

usage: clients_test.py VEERY [unittest arguments]

Run by the Python of scripts/clients.sh. A client that is not installed skips its tests; without the model or any client
the whole is skipped (status 77).
"""
import asyncio
import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from serve_client import PROGRAM, Server  # noqa: E402

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
MODEL = pathlib.Path(os.environ.get("VEERY_MODELS") or CACHE / "veery" / "models") / "SmolLM2-135M-Instruct.Q4_1.gguf"
ENCODER = ROOT / "tests" / "fixtures" / "encoders" / "bert-mean"
QUESTION = "What is the capital of France?"
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
    "required": ["name", "age"], "additionalProperties": False,
}  # fmt: skip
WEATHER = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 30}}, "required": ["city"]}
KEY = "a-key"
server = None


def setUpModule():
    global server
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
        keys.write(KEY + "\n")
        keys.flush()
        server = Server(MODEL, ENCODER, "-a", "smollm2", "-a", "encoder", "-c", 2048, "--api-key-file", keys.name)
    server.url = f"http://127.0.0.1:{server.port}"


def tearDownModule():
    server.end()


def needs(*modules):
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"{', '.join(missing)} is not installed")


def answer_of_run(*arguments):
    done = subprocess.run([PROGRAM, "run", str(MODEL), "-p", QUESTION, "--temp", "0", "-n", "24", "--json", *arguments],
                          capture_output=True, check=True)  # fmt: skip
    return json.loads(done.stdout)["text"]


@needs("openai", "pydantic")
class OpenAi(unittest.TestCase):
    def setUp(self):
        import openai

        self.module = openai
        self.client = openai.OpenAI(base_url=server.url + "/v1", api_key=KEY, max_retries=0)
        self.addCleanup(self.client.close)
        self.chat = {"model": "smollm2", "messages": [{"role": "user", "content": QUESTION}], "temperature": 0, "max_tokens": 24}

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["smollm2", "encoder"])
        self.assertEqual(self.client.models.retrieve("encoder").owned_by, "veery")

    def test_chat_whole_and_as_a_stream_is_what_run_says(self):
        whole = self.client.chat.completions.create(**self.chat)
        self.assertEqual(whole.choices[0].message.content, answer_of_run())
        self.assertEqual(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens)
        pieces = list(self.client.chat.completions.create(**self.chat, stream=True, stream_options={"include_usage": True}))
        text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(pieces[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual([p.choices[0].finish_reason for p in pieces if p.choices][-1], whole.choices[0].finish_reason)

    def test_the_stream_helper(self):
        with self.client.chat.completions.stream(**self.chat) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        self.assertIn("content.delta", kinds)
        self.assertEqual(final.choices[0].message.content, answer_of_run())

    def test_asynchronous(self):
        async def ask():
            async with self.module.AsyncOpenAI(base_url=server.url + "/v1", api_key=KEY) as client:
                return await asyncio.gather(*(client.chat.completions.create(**self.chat) for _ in range(4)))

        self.assertEqual({one.choices[0].message.content for one in asyncio.run(ask())}, {answer_of_run()})

    def test_parse_gives_an_object_of_the_schema(self):
        import pydantic

        class Person(pydantic.BaseModel):
            name: str = pydantic.Field(max_length=20)
            age: int = pydantic.Field(ge=0, le=150)

        self.chat["max_tokens"] = 80
        parsed = self.client.chat.completions.parse(**self.chat, response_format=Person).choices[0].message.parsed
        self.assertIsInstance(parsed, Person)
        self.chat["response_format"] = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}
        text = self.client.chat.completions.create(**self.chat).choices[0].message.content
        self.assertEqual(set(json.loads(text)), {"name", "age"})

    def test_tools_are_called_where_that_is_wanted(self):
        tools = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
        try:
            whole = self.client.chat.completions.create(**self.chat | {"max_tokens": 80}, tools=tools, tool_choice="required")
        except self.module.BadRequestError as error:  # this model's template has no form of calls
            self.assertIn("tool", error.message)
            return
        call = whole.choices[0].message.tool_calls[0].function
        self.assertEqual((call.name, set(json.loads(call.arguments))), ("weather", {"city"}))

    def test_probabilities(self):
        whole = self.client.chat.completions.create(**self.chat, logprobs=True, top_logprobs=3)
        content = whole.choices[0].logprobs.content
        self.assertEqual("".join(one.token for one in content if not one.token.startswith("<|")), whole.choices[0].message.content)
        for one in content:
            self.assertEqual(len(one.top_logprobs), 3)
            self.assertEqual(one.token, one.top_logprobs[0].token)  # greedy
            self.assertLessEqual(sum(math.exp(other.logprob) for other in one.top_logprobs), 1 + 1e-6)

    def test_completions(self):
        given = {"model": "smollm2", "prompt": "Paris is the capital of", "max_tokens": 8, "temperature": 0}
        echoed = self.client.completions.create(**given, echo=True, logprobs=1).choices[0]
        plain = self.client.completions.create(**given).choices[0].text
        self.assertEqual(echoed.text, given["prompt"] + plain)
        self.assertIsNone(echoed.logprobs.token_logprobs[0])
        self.assertEqual(len(echoed.logprobs.tokens), len(echoed.logprobs.token_logprobs))
        two = self.client.completions.create(**given | {"temperature": 1}, n=2, seed=7).choices
        again = self.client.completions.create(**given | {"temperature": 1}, n=2, seed=7).choices
        self.assertEqual([one.text for one in two], [one.text for one in again])

    def test_responses(self):
        given = {"model": "smollm2", "input": QUESTION, "max_output_tokens": 24, "temperature": 0}
        whole = self.client.responses.create(**given)
        self.assertEqual(whole.output_text, answer_of_run())
        with self.client.responses.stream(**given) as stream:
            self.assertIn("response.output_text.delta", {event.type for event in stream})
            self.assertEqual(stream.get_final_response().output_text, whole.output_text)

    def test_responses_are_stored(self):
        given = {"model": "smollm2", "max_output_tokens": 8, "temperature": 0}
        first = self.client.responses.create(**given, input=QUESTION)
        second = self.client.responses.create(**given, input="And of Spain?", previous_response_id=first.id)
        self.assertGreater(second.usage.input_tokens_details.cached_tokens, 0)
        self.assertEqual(self.client.responses.retrieve(first.id).output_text, first.output_text)
        self.assertEqual(len(list(self.client.responses.input_items.list(second.id))), 3)
        self.client.responses.delete(first.id)
        with self.assertRaises(self.module.NotFoundError):
            self.client.responses.retrieve(first.id)

    def test_a_prompt_that_is_too_long(self):
        with self.assertRaises(self.module.BadRequestError) as caught:
            self.client.chat.completions.create(**self.chat | {"messages": [{"role": "user", "content": "word " * 5000}]})
        self.assertEqual((caught.exception.code, caught.exception.param), ("context_length_exceeded", "messages"))

    def test_embeddings(self):
        found = self.client.embeddings.create(model="encoder", input=["a thrush", "rain"])  # asks for base64
        self.assertEqual([one.index for one in found.data], [0, 1])
        self.assertAlmostEqual(sum(x * x for x in found.data[0].embedding), 1, 4)

    def test_errors_are_of_the_clients_kinds(self):
        with self.assertRaises(self.module.NotFoundError):
            self.client.chat.completions.create(**self.chat | {"model": "gpt-4o"})
        with self.assertRaises(self.module.BadRequestError) as caught:
            self.client.chat.completions.create(**self.chat | {"temperature": -1})
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(self.module.AuthenticationError):
            self.module.OpenAI(base_url=server.url + "/v1", api_key="other").models.list()


@needs("anthropic")
class Anthropic(unittest.TestCase):
    def setUp(self):
        import anthropic

        self.module = anthropic
        self.client = anthropic.Anthropic(base_url=server.url, api_key=KEY, max_retries=0)
        self.addCleanup(self.client.close)
        self.given = {"model": "smollm2", "max_tokens": 24, "messages": [{"role": "user", "content": QUESTION}],
                      "extra_body": {"temperature": 0}}  # fmt: skip

    def test_messages_whole_and_as_a_stream(self):
        whole = self.client.messages.create(**self.given)
        self.assertEqual((whole.type, whole.role, whole.content[0].text), ("message", "assistant", answer_of_run()))
        self.assertIn(whole.stop_reason, ("end_turn", "max_tokens"))
        with self.client.messages.stream(**self.given) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual((text, final.usage.output_tokens), (whole.content[0].text, whole.usage.output_tokens))

    def test_models(self):
        models = list(self.client.models.list())
        self.assertEqual([model.id for model in models], ["smollm2", "encoder"])
        self.assertEqual(self.client.models.retrieve("smollm2").type, "model")

    def test_tokens_are_counted(self):
        counted = self.client.messages.count_tokens(model="smollm2", messages=self.given["messages"])
        usage = self.client.messages.create(**self.given).usage
        self.assertEqual(counted.input_tokens, usage.input_tokens + (usage.cache_read_input_tokens or 0))

    def test_tools(self):
        tools = [{"name": "weather", "description": "Tells the weather", "input_schema": WEATHER}]
        try:
            whole = self.client.messages.create(**self.given | {"max_tokens": 80}, tools=tools, tool_choice={"type": "any"})
        except self.module.BadRequestError as error:
            self.assertIn("tool", str(error))
            return
        self.assertEqual({(part.type, part.name) for part in whole.content}, {("tool_use", "weather")})  # one or more

    def test_errors(self):
        with self.assertRaises(self.module.NotFoundError):
            self.client.messages.create(**self.given | {"model": "claude"})
        with self.assertRaises(self.module.AuthenticationError):
            self.module.Anthropic(base_url=server.url, api_key="x", max_retries=0).messages.create(**self.given)


@needs("langchain_openai")
class LangChain(unittest.TestCase):
    def setUp(self):
        import langchain_openai

        self.module = langchain_openai
        self.chat = langchain_openai.ChatOpenAI(model="smollm2", base_url=server.url + "/v1", api_key=KEY, temperature=0, max_tokens=24)

    def test_chat(self):
        self.assertEqual(self.chat.invoke(QUESTION).content, answer_of_run())
        self.assertEqual("".join(piece.content for piece in self.chat.stream(QUESTION)), answer_of_run())

    def test_structured_output(self):
        self.chat.max_tokens = 80
        found = self.chat.with_structured_output({"title": "person", **SCHEMA}, method="json_schema").invoke("Describe Ann.")
        self.assertEqual(set(found), {"name", "age"})

    def test_embeddings(self):
        maker = self.module.OpenAIEmbeddings(model="encoder", base_url=server.url + "/v1", api_key=KEY, check_embedding_ctx_length=False)
        self.assertEqual(len(maker.embed_documents(["a", "b"])), 2)


@needs("litellm")
class LiteLlm(unittest.TestCase):
    def setUp(self):
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # prices are of no interest here
        import litellm

        litellm.suppress_debug_info = True
        self.module = litellm
        self.given = {"model": "openai/smollm2", "api_base": server.url + "/v1", "api_key": KEY, "temperature": 0, "max_tokens": 24,
                      "messages": [{"role": "user", "content": QUESTION}], "num_retries": 0}  # fmt: skip

    def test_chat_by_both_families(self):
        self.assertEqual(self.module.completion(**self.given).choices[0].message.content, answer_of_run())
        pieces = self.module.completion(**self.given, stream=True)
        self.assertEqual("".join(piece.choices[0].delta.content or "" for piece in pieces), answer_of_run())
        anthropic = self.given | {"model": "anthropic/smollm2", "api_base": server.url}
        self.assertEqual(self.module.completion(**anthropic).choices[0].message.content, answer_of_run())

    def test_a_prompt_that_is_too_long_is_known_as_such(self):
        for model, base in (("openai/smollm2", server.url + "/v1"), ("anthropic/smollm2", server.url)):
            with self.assertRaises(self.module.ContextWindowExceededError):
                self.module.completion(**self.given | {"model": model, "api_base": base, "messages": [
                    {"role": "user", "content": "word " * 5000}]})  # fmt: skip


@needs("instructor", "pydantic")
class Instructor(unittest.TestCase):
    def test_an_object_of_a_class(self):
        import instructor
        import openai
        import pydantic

        class Person(pydantic.BaseModel):
            name: str = pydantic.Field(max_length=20)
            age: int = pydantic.Field(ge=0, le=150)

        plain = openai.OpenAI(base_url=server.url + "/v1", api_key=KEY, max_retries=0)
        self.addCleanup(plain.close)
        client = instructor.from_openai(plain, mode=instructor.Mode.JSON_SCHEMA)
        found = client.chat.completions.create(model="smollm2", response_model=Person, temperature=0, max_tokens=80, max_retries=0,
                                               messages=[{"role": "user", "content": "Ann is 30."}])  # fmt: skip
        self.assertIsInstance(found, Person)


@needs("agents")
class OpenAiAgents(unittest.TestCase):
    """The Agents SDK, by responses and by chat completions."""

    def test_an_agent_answers_and_goes_on(self):
        import agents
        import openai

        async def ask():
            async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key=KEY, max_retries=0) as client:
                for kind in (agents.OpenAIResponsesModel, agents.OpenAIChatCompletionsModel):
                    agent = agents.Agent(name="a", model=kind(model="smollm2", openai_client=client),
                                         model_settings=agents.ModelSettings(temperature=0, max_tokens=24))  # fmt: skip
                    first = await agents.Runner.run(agent, QUESTION)
                    self.assertEqual(first.final_output, answer_of_run())
                    more = [*first.to_input_list(), {"role": "user", "content": "And of Spain?"}]
                    self.assertTrue((await agents.Runner.run(agent, more)).final_output)
                    streamed = agents.Runner.run_streamed(agent, QUESTION)
                    kinds = {event.type async for event in streamed.stream_events()}
                    self.assertIn("raw_response_event", kinds)
                    self.assertEqual(streamed.final_output, first.final_output)
                responses = agents.Agent(name="a", model=agents.OpenAIResponsesModel(model="smollm2", openai_client=client),
                                         model_settings=agents.ModelSettings(temperature=0, max_tokens=24))  # fmt: skip
                first = await agents.Runner.run(responses, QUESTION)
                second = await agents.Runner.run(responses, "And of Spain?", previous_response_id=first.last_response_id)
                self.assertTrue(second.final_output)

        agents.set_tracing_disabled(True)
        asyncio.run(ask())


@needs("ollama")
class Ollama(unittest.TestCase):
    def setUp(self):
        import ollama

        self.client = ollama.Client(host=server.url, headers={"Authorization": f"Bearer {KEY}"})
        self.options = {"temperature": 0, "num_predict": 24}

    def test_what_there_is(self):
        self.assertEqual([model.model for model in self.client.list().models], ["smollm2", "encoder"])
        self.assertEqual(self.client.show("smollm2").details.family, "llama")
        self.assertEqual(len(self.client.ps().models), 2)

    def test_chat_and_generate(self):
        message = [{"role": "user", "content": QUESTION}]
        whole = self.client.chat("smollm2", message, options=self.options)
        self.assertEqual(whole.message.content, answer_of_run())
        pieces = self.client.chat("smollm2", message, options=self.options, stream=True, keep_alive="10m")
        self.assertEqual("".join(piece.message.content for piece in pieces), whole.message.content)
        self.assertEqual(self.client.generate("smollm2", QUESTION, options=self.options).response, whole.message.content)
        found = self.client.chat("smollm2", message, options=self.options | {"num_predict": 80}, format=SCHEMA)
        self.assertEqual(set(json.loads(found.message.content)), {"name", "age"})

    def test_embed(self):
        vectors = self.client.embed("encoder", ["a", "b"]).embeddings
        self.assertEqual(len(vectors), 2)
        self.assertEqual(list(self.client.embeddings("encoder", "a").embedding), list(vectors[0]))

    def test_a_context_goes_on_and_an_unknown_model_is_said(self):
        import ollama

        first = self.client.generate("smollm2", QUESTION, options=self.options)
        second = self.client.generate("smollm2", "And of Italy?", options=self.options, context=first.context)
        self.assertGreater(second.prompt_eval_count, first.prompt_eval_count + first.eval_count)
        with self.assertRaises(ollama.ResponseError) as raised:
            self.client.generate("llama9", "a")
        self.assertEqual(raised.exception.status_code, 404)

    def test_tools_and_their_results_without_a_place_in_the_template(self):
        def get_weather(city: str) -> str:
            """Tells the weather of a city."""
            return city

        message = {"role": "user", "content": "What is the weather in Rome? Call the tool."}
        found = self.client.chat("smollm2", [message], tools=[get_weather], options=self.options)
        call = {"function": {"name": "get_weather", "arguments": {"city": "Rome"}}}
        history = [message, {"role": "assistant", "content": "", "tool_calls": [call]},
                   {"role": "tool", "tool_name": "get_weather", "content": "sunny"}]  # fmt: skip
        after = self.client.chat("smollm2", history, tools=[get_weather], options=self.options)
        self.assertGreater(after.prompt_eval_count, found.prompt_eval_count)
        self.assertIn("tools", self.client.show("smollm2").capabilities)


@needs("llm")
class Llm(unittest.TestCase):
    """Its command line, with a model of OpenAI's form that a file names."""

    def test_a_prompt_and_a_schema(self):
        with tempfile.TemporaryDirectory() as home:
            (pathlib.Path(home) / "extra-openai-models.yaml").write_text(
                f"- model_id: local\n  model_name: smollm2\n  api_base: {server.url}/v1\n  api_key_name: veery\n  supports_schema: true\n")  # fmt: skip
            (pathlib.Path(home) / "keys.json").write_text(json.dumps({"veery": KEY}))
            environment = {**os.environ, "LLM_USER_PATH": home}

            def ask(*words):
                command = [sys.executable, "-m", "llm", "-m", "local", "-o", "temperature", "0", "-o", "max_tokens", "80", *words]
                return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

            expected = answer_of_run("-n", "80")
            self.assertEqual(ask(QUESTION).strip(), expected.strip())
            self.assertEqual(ask("--no-stream", QUESTION).strip(), expected.strip())
            self.assertEqual(set(json.loads(ask("--schema", json.dumps(SCHEMA), "Describe Ann."))), {"name", "age"})


@needs("lm_eval")
class LmEval(unittest.TestCase):
    """Log-likelihoods through completions with echo, as the harness asks for them."""

    def test_loglikelihoods_are_those_of_logits(self):
        from lm_eval.api.instance import Instance
        from lm_eval.models.openai_completions import LocalCompletionsAPI

        os.environ["OPENAI_API_KEY"] = KEY
        model = LocalCompletionsAPI(base_url=server.url + "/v1/completions", model="smollm2", tokenizer_backend="remote",
                                    num_concurrent=1, max_retries=1, auth_token=KEY)  # fmt: skip
        pairs = [("The capital of France is", " Paris"), ("The capital of France is", " a large green banana"), ("One, two,", " three")]
        found = model.loglikelihood([Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(pairs)])
        for (start, end), (total, greedy) in zip(pairs, found):
            expected, first = self.expect(start, end)
            self.assertAlmostEqual(total, expected, delta=1e-2)
            self.assertEqual(bool(greedy), first)

    @staticmethod
    def expect(start, end):
        def call(*words):
            return json.loads(subprocess.run([PROGRAM, *words, "--json"], capture_output=True, check=True).stdout)

        ids = [call("tokenize", str(MODEL), "-p", text)["ids"] for text in (start, start + end)]
        rows = call("logits", str(MODEL), "--ids", ",".join(map(str, ids[1])), "--all", "--top", "100000")["positions"]
        total, greedy = 0.0, True
        for at in range(len(ids[0]), len(ids[1])):
            logits = {one["id"]: one["logit"] for one in rows[at - 1]["top"]}
            most = max(logits.values())
            total += logits[ids[1][at]] - most - math.log(sum(math.exp(value - most) for value in logits.values()))
            greedy &= logits[ids[1][at]] == most
        return total, greedy


@needs("mlx_lm")
class MlxLm(unittest.TestCase):
    """mlx-lm as a backend of `veery run`, on a folder that veery wrote."""

    def test_answers_are_those_of_mlx_lm_itself(self):
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place) / "model"
            subprocess.run([PROGRAM, "convert", str(MODEL), str(folder), "--to", "mlx", "--dtype", "float32"], check=True, capture_output=True)
            code = ("import sys, mlx_lm; model, words = mlx_lm.load(sys.argv[1]); "
                    "ids = words.apply_chat_template([{'role': 'user', 'content': sys.argv[2]}], add_generation_prompt=True); "
                    "sys.stdout.write(mlx_lm.generate(model, words, ids, max_tokens=24))")  # fmt: skip
            expected = subprocess.run([sys.executable, "-c", code, str(folder), QUESTION], check=True, capture_output=True, text=True).stdout
            done = subprocess.run(
                [PROGRAM, "run", str(folder), "--backend", "mlx_lm", "--python", sys.executable, "-p", QUESTION, "-n", "24", "--temp", "0", "--json"],
                check=True, capture_output=True)  # fmt: skip
            found = json.loads(done.stdout)
            self.assertEqual((found["text"], found["model_type"]), (expected, "llama"))
            self.assertEqual(found["text"], answer_of_run())
            gone = subprocess.run([PROGRAM, "run", str(folder) + "-gone", "--backend", "mlx_lm", "--python", sys.executable, "-p", "x"],
                                  check=False, capture_output=True, text=True)  # fmt: skip
            self.assertEqual((gone.returncode, gone.stderr[:21]), (1, "veery: error: mlx_lm:"))


if __name__ == "__main__":
    assert PROGRAM and os.path.exists(PROGRAM), __doc__
    if not MODEL.exists() or not any(importlib.util.find_spec(name) for name in ("openai", "anthropic", "ollama", "llm", "mlx_lm")):
        print("clients_test: no model or no client is there (scripts/models.sh, scripts/clients.sh)", file=sys.stderr)
        sys.exit(77)
    unittest.main()

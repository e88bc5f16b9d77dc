/* Continues a text and streams it to standard output: generate MODEL PROMPT [TOKENS] */
#include <stdio.h>
#include <stdlib.h>
#include <veery/veery.h>

static int32_t print(void* user, const veery_piece* piece) {
  (void)user;
  fwrite(piece->text, 1, piece->length, stdout);
  fflush(stdout);
  return 0; /* any other value stops the answer */
}

static int fail(const char* call, veery_status status) {
  fprintf(stderr, "%s: %s: %s\n", call, veery_status_name(status), veery_last_message());
  return 1;
}

int main(int count, char** arguments) {
  if (count < 3) {
    fprintf(stderr, "usage: generate MODEL PROMPT [TOKENS]\n");
    return 2;
  }
  veery_model* model = NULL;
  veery_status status = veery_model_load(arguments[1], NULL, &model);
  if (status != VEERY_OK) return fail("veery_model_load", status);

  veery_generate_options options;
  veery_generate_options_init(&options, sizeof options, model);
  options.temperature = 0;
  options.max_tokens = count > 3 ? atoi(arguments[3]) : 64;

  veery_answer* answer = NULL;
  status = veery_generate(model, arguments[2], VEERY_NUL, &options, print, NULL, &answer);
  veery_model_free(model); /* the answer holds a reference to the model */
  if (status != VEERY_OK) return fail("veery_generate", status);

  veery_usage usage;
  usage.size = sizeof usage;
  veery_answer_get_usage(answer, &usage);
  fprintf(stderr, "\n%d tokens of prompt, %d made\n", (int)usage.prompt_tokens,
          (int)usage.made_tokens);
  veery_answer_free(answer);
  return 0;
}

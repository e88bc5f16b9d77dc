/* Fits y = x w to noisy numbers by gradient descent, and prints the weights: regression [STEPS] */
#include <stdio.h>
#include <stdlib.h>
#include <veery/veery.h>

static void check(const char* call, veery_status status) {
  if (status == VEERY_OK) return;
  fprintf(stderr, "%s: %s: %s\n", call, veery_status_name(status), veery_last_message());
  exit(1);
}

/* Applies a function of two operands, the first of which it frees. */
typedef veery_status (*two)(const veery_tensor*, const veery_tensor*, veery_tensor**);
static void apply(const char* name, two function, veery_tensor** x, const veery_tensor* y) {
  veery_tensor* result = NULL;
  check(name, function(*x, y, &result));
  veery_tensor_free(*x);
  *x = result;
}

/* The mean of (x w - y)^2. A function that is differentiated returns errors instead of exiting. */
static veery_status loss(void* user, veery_tensor* const* in, size_t in_count, veery_tensor** out,
                         size_t out_count) {
  veery_tensor *product = NULL, *error = NULL, *square = NULL;
  veery_status status = veery_tensor_matmul(in[0], in[1], &product);
  (void)user, (void)in_count, (void)out_count;
  if (status == VEERY_OK) status = veery_tensor_subtract(product, in[2], &error);
  if (status == VEERY_OK) status = veery_tensor_square(error, &square);
  if (status == VEERY_OK) status = veery_tensor_mean(square, NULL, 0, 0, &out[0]);
  veery_tensor_free(square);
  veery_tensor_free(error);
  veery_tensor_free(product);
  return status;
}

int main(int count, char** arguments) {
  const int steps = count > 1 ? atoi(arguments[1]) : 200;
  const int64_t shape[] = {256, 3}, column[] = {3, 1};
  const float truth[] = {1.5F, -2, 0.25F};
  veery_tensor *key = NULL, *other = NULL, *x = NULL, *w = NULL, *y = NULL, *noise = NULL,
               *rate = NULL;
  check("key", veery_tensor_random_key(1, &key));
  check("key", veery_tensor_random_key(2, &other));
  check("x", veery_tensor_random_normal(key, shape, 2, 0, 1, VEERY_DTYPE_F32, &x));
  check("w", veery_tensor_copy(truth, column, 2, VEERY_DTYPE_F32, &w));
  check("y", veery_tensor_matmul(x, w, &y));
  check("noise", veery_tensor_random_normal(other, (const int64_t[]){256, 1}, 2, 0, 0.01,
                                            VEERY_DTYPE_F32, &noise));
  apply("add", veery_tensor_add, &y, noise);
  check("eval", veery_tensor_eval(y));
  veery_tensor_free(w);
  check("zeros", veery_tensor_zeros(column, 2, VEERY_DTYPE_F32, &w));
  check("rate", veery_tensor_scalar(0.1, &rate));

  double value = 0;
  for (int i = 0; i < steps; ++i) {
    veery_tensor* inputs[] = {x, w, y};
    const int32_t argnum = 1;
    veery_tensor *mean = NULL, *gradient = NULL;
    check("value_and_grad",
          veery_tensor_value_and_grad(loss, NULL, inputs, 3, &argnum, 1, &mean, &gradient));
    apply("multiply", veery_tensor_multiply, &gradient, rate);
    apply("subtract", veery_tensor_subtract, &w, gradient);
    veery_tensor* both[] = {mean, w};
    check("eval_all", veery_tensor_eval_all(both, 2));
    check("item", veery_tensor_item(mean, &value));
    veery_tensor_free(mean);
    veery_tensor_free(gradient);
  }
  float found[3];
  check("copy_to", veery_tensor_copy_to(w, found, sizeof found));
  printf("weights %.2f %.2f %.2f, loss %.4f\n", found[0], found[1], found[2], value);

  veery_tensor* all[] = {key, other, x, w, y, noise, rate};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) veery_tensor_free(all[i]);
  return veery_tensor_handle_count() == 0 ? 0 : 1;
}

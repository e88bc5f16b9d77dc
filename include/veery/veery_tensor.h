/* veery_tensor.h: lazy arrays with automatic differentiation. Part of veery.h, whose rules hold;
 * docs/tensor.md has a guide ("Arrays from C"), include/veery/tensor.hpp is the same for C++.
 *
 * - Lazy: a call that returns a tensor checks its arguments and computes nothing. Calls that read
 *   values compute them: eval, item, copy_to, text. Indices outside of an axis and a lack of memory
 *   are found then.
 * - Ownership: each veery_tensor* that a call returns is a handle of its own, which the caller
 *   passes to veery_tensor_free() once. A tensor lives until its last handle is freed and no other
 *   tensor needs it. Calls do not take over their arguments. A handle that was freed already is
 *   refused with VEERY_ERROR_INPUT like any other pointer that is no handle, unless its address
 *   belongs to a new handle by then.
 * - Results are the last parameters; they are null after an error. Lists of tensors that a call
 *   returns are written to an array of the caller.
 * - Shapes are `rank` sizes, at most 8; a tensor without dimensions has rank 0 and a shape that may
 *   be null. Negative axes count from the last. `axis_count` 0 stands for all axes.
 * - Numbers beside tensors: veery_tensor_scalar() makes a tensor without a type of its own, which
 *   takes the type of the tensor that it meets in an element-wise call of two operands.
 * - Names and semantics follow the Python array API standard 2024.12
 *   (https://data-apis.org/array-api/2024.12/) where it has a function.
 * - Thread safety: evaluated tensors may be used by several threads at once. A tensor that is not
 *   evaluated, and what was computed from it, belongs to one thread at a time. Evaluations of
 *   different threads take turns. Retaining and freeing of handles is safe on any thread.
 * - fork(): after tensors were evaluated, evaluation in a child process returns
 *   VEERY_ERROR_UNSUPPORTED.
 */
#ifndef VEERY_VEERY_TENSOR_H
#define VEERY_VEERY_TENSOR_H

#include "veery.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct veery_tensor veery_tensor;

/* Element types, passed as int32_t. f16 and bf16 are computed in f32; each result is rounded. */
typedef enum veery_dtype {
  VEERY_DTYPE_BOOL = 0, /* one byte, 0 or 1 */
  VEERY_DTYPE_U8 = 1,
  VEERY_DTYPE_I8 = 2,
  VEERY_DTYPE_I32 = 3,
  VEERY_DTYPE_U32 = 4,
  VEERY_DTYPE_I64 = 5,
  VEERY_DTYPE_F16 = 6,
  VEERY_DTYPE_BF16 = 7,
  VEERY_DTYPE_F32 = 8,
  VEERY_DTYPE_F64 = 9
} veery_dtype;

/* Returns "f32" for VEERY_DTYPE_F32, and so on; "unknown" for other values. */
VEERY_API const char* veery_dtype_name(int32_t dtype);
/* Returns the bytes of an element; 0 for other values. */
VEERY_API size_t veery_dtype_size(int32_t dtype);
/* Returns the type of results of operands of two types: of floats the wider one (f32 for f16 and
 * bf16), of a float and an integer the float. */
VEERY_API veery_status veery_dtype_promote(int32_t a, int32_t b, int32_t* dtype);

/* ---- handles ---- */

/* Returns another handle of the same tensor. */
VEERY_API veery_status veery_tensor_retain(const veery_tensor* x, veery_tensor** out);
/* Frees a handle. Accepts null, and does nothing for a handle that was freed already. */
VEERY_API void veery_tensor_free(veery_tensor* x);
/* Returns the number of handles that are not freed. */
VEERY_API size_t veery_tensor_handle_count(void);

/* ---- numbers from memory ---- */

/* Copies the elements of the shape at `data`, contiguous, in row-major order. `data` may be null if
 * there are none. */
VEERY_API veery_status veery_tensor_copy(const void* data, const int64_t* shape, size_t rank,
                                         int32_t dtype, veery_tensor** out);
/* Called once, when no tensor uses borrowed memory any more, by any thread, perhaps during an
 * evaluation. Must not throw, and must not call functions of this library. */
typedef void (*veery_tensor_release)(void* user);
/* Uses memory of the caller, aligned to its elements, without a copy. It must not change until
 * `release` is called, which may be null. After an error `release` is not called. */
VEERY_API veery_status veery_tensor_borrow(const void* data, const int64_t* shape, size_t rank,
                                           int32_t dtype, veery_tensor_release release, void* user,
                                           veery_tensor** out);
/* Numbers without a type of their own ("weak"), without dimensions. In an element-wise call of two
 * operands, where() or clip(), such a number takes the type of the other operand, except that a
 * float that meets integers gives f32, and an integer that meets bools i32. Elsewhere they are f32,
 * i32 (i64 if it does not fit) and bool. */
VEERY_API veery_status veery_tensor_scalar(double value, veery_tensor** out);
VEERY_API veery_status veery_tensor_scalar_int(int64_t value, veery_tensor** out);
VEERY_API veery_status veery_tensor_scalar_bool(int32_t value, veery_tensor** out);

/* ---- properties ---- */

/* Returns the number of dimensions; 0 for null. */
VEERY_API size_t veery_tensor_rank(const veery_tensor* x);
/* Returns the sizes of all dimensions, valid as long as the handle; null for null. */
VEERY_API const int64_t* veery_tensor_shape(const veery_tensor* x);
/* Returns the size of one dimension. */
VEERY_API veery_status veery_tensor_dim(const veery_tensor* x, int32_t axis, int64_t* size);
/* Returns the number of elements; 0 for null. */
VEERY_API int64_t veery_tensor_size(const veery_tensor* x);
/* Returns a veery_dtype; -1 for null. */
VEERY_API int32_t veery_tensor_dtype(const veery_tensor* x);
/* Returns 1 if the values are computed, else 0. */
VEERY_API int32_t veery_tensor_is_evaluated(const veery_tensor* x);
/* Writes the bytes between neighbours of each dimension to `rank` entries; 0 repeats an element.
 * VEERY_ERROR_INPUT if the tensor is not evaluated. */
VEERY_API veery_status veery_tensor_byte_strides(const veery_tensor* x, int64_t* strides);
/* Returns the first element, valid as long as the handle. VEERY_ERROR_INPUT if the tensor is not
 * evaluated. The memory must not be changed. */
VEERY_API veery_status veery_tensor_data(const veery_tensor* x, const void** data);

/* ---- values ---- */

/* Computes a tensor. Returns VEERY_ERROR_LIMIT if there is not enough memory. */
VEERY_API veery_status veery_tensor_eval(const veery_tensor* x);
/* Computes `count` tensors together. */
VEERY_API veery_status veery_tensor_eval_all(veery_tensor* const* tensors, size_t count);
/* Returns the value of a tensor with one element. */
VEERY_API veery_status veery_tensor_item(const veery_tensor* x, double* value);
/* The same as an integer; floats saturate. */
VEERY_API veery_status veery_tensor_item_int(const veery_tensor* x, int64_t* value);
/* Writes all elements in row-major order to `bytes` bytes, which must be those of all elements. */
VEERY_API veery_status veery_tensor_copy_to(const veery_tensor* x, void* to, size_t bytes);
/* Returns type, shape and values for people. `length` may be null. */
VEERY_API veery_status veery_tensor_text(const veery_tensor* x, char** text, size_t* length);

/* ---- memory and threads ---- */

/* Bytes of all tensors of this process. */
typedef struct veery_tensor_memory {
  size_t size;
  uint64_t active; /* in use */
  uint64_t peak;   /* maximum of `active` since the start or veery_tensor_reset_peak_memory() */
  uint64_t cached; /* released, kept for reuse */
} veery_tensor_memory;

/* Set `memory->size` before the call. */
VEERY_API veery_status veery_tensor_get_memory(veery_tensor_memory* memory);
VEERY_API veery_status veery_tensor_reset_peak_memory(void);
/* Limits active and cached bytes together. Evaluations that need more return VEERY_ERROR_LIMIT, and
 * tensors that were not computed stay as they were. */
VEERY_API veery_status veery_tensor_set_memory_limit(uint64_t bytes);
/* Limits cached bytes, 256 MiB at first. */
VEERY_API veery_status veery_tensor_set_cache_limit(uint64_t bytes);
VEERY_API veery_status veery_tensor_clear_cache(void);
/* Sets the number of worker threads, before the first evaluation; 0: the cores that the process may
 * use. */
VEERY_API veery_status veery_tensor_set_threads(int32_t count);

/* ---- creation ---- */

/* Integer types take the integer part of `value`. */
VEERY_API veery_status veery_tensor_full(const int64_t* shape, size_t rank, double value,
                                         int32_t dtype, veery_tensor** out);
VEERY_API veery_status veery_tensor_zeros(const int64_t* shape, size_t rank, int32_t dtype,
                                          veery_tensor** out);
VEERY_API veery_status veery_tensor_ones(const int64_t* shape, size_t rank, int32_t dtype,
                                         veery_tensor** out);
VEERY_API veery_status veery_tensor_zeros_like(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_ones_like(const veery_tensor* x, veery_tensor** out);
/* start, start + step, ... below `stop` (above it if step < 0). */
VEERY_API veery_status veery_tensor_arange(double start, double stop, double step, int32_t dtype,
                                           veery_tensor** out);
/* `count` numbers from `start` to `stop`, both included. */
VEERY_API veery_status veery_tensor_linspace(double start, double stop, int64_t count,
                                             int32_t dtype, veery_tensor** out);
/* Ones on diagonal `k`. */
VEERY_API veery_status veery_tensor_eye(int64_t rows, int64_t columns, int64_t k, int32_t dtype,
                                        veery_tensor** out);
/* x with zeros above (tril) or below (triu) diagonal `k` of the last two axes. */
VEERY_API veery_status veery_tensor_tril(const veery_tensor* x, int64_t k, veery_tensor** out);
VEERY_API veery_status veery_tensor_triu(const veery_tensor* x, int64_t k, veery_tensor** out);

/* ---- types ---- */

/* x with elements of another type. Floats saturate to integers, NaN gives 0. */
VEERY_API veery_status veery_tensor_astype(const veery_tensor* x, int32_t dtype,
                                           veery_tensor** out);

/* ---- element-wise, two operands ----
 * Operands are broadcast and brought to one type, that of veery_dtype_promote(). */

VEERY_API veery_status veery_tensor_add(const veery_tensor* a, const veery_tensor* b,
                                        veery_tensor** out);
VEERY_API veery_status veery_tensor_subtract(const veery_tensor* a, const veery_tensor* b,
                                             veery_tensor** out);
VEERY_API veery_status veery_tensor_multiply(const veery_tensor* a, const veery_tensor* b,
                                             veery_tensor** out);
/* Floats; integers give f32. */
VEERY_API veery_status veery_tensor_divide(const veery_tensor* a, const veery_tensor* b,
                                           veery_tensor** out);
VEERY_API veery_status veery_tensor_floor_divide(const veery_tensor* a, const veery_tensor* b,
                                                 veery_tensor** out);
/* Has the sign of the divisor. */
VEERY_API veery_status veery_tensor_remainder(const veery_tensor* a, const veery_tensor* b,
                                              veery_tensor** out);
VEERY_API veery_status veery_tensor_pow(const veery_tensor* a, const veery_tensor* b,
                                        veery_tensor** out);
/* NaN if one is NaN. */
VEERY_API veery_status veery_tensor_minimum(const veery_tensor* a, const veery_tensor* b,
                                            veery_tensor** out);
VEERY_API veery_status veery_tensor_maximum(const veery_tensor* a, const veery_tensor* b,
                                            veery_tensor** out);
/* Floats; integers give f32, up to logaddexp(). */
VEERY_API veery_status veery_tensor_atan2(const veery_tensor* a, const veery_tensor* b,
                                          veery_tensor** out);
VEERY_API veery_status veery_tensor_hypot(const veery_tensor* a, const veery_tensor* b,
                                          veery_tensor** out);
VEERY_API veery_status veery_tensor_copysign(const veery_tensor* a, const veery_tensor* b,
                                             veery_tensor** out);
/* ln(e^a + e^b) */
VEERY_API veery_status veery_tensor_logaddexp(const veery_tensor* a, const veery_tensor* b,
                                              veery_tensor** out);
/* bool. */
VEERY_API veery_status veery_tensor_equal(const veery_tensor* a, const veery_tensor* b,
                                          veery_tensor** out);
VEERY_API veery_status veery_tensor_not_equal(const veery_tensor* a, const veery_tensor* b,
                                              veery_tensor** out);
VEERY_API veery_status veery_tensor_less(const veery_tensor* a, const veery_tensor* b,
                                         veery_tensor** out);
VEERY_API veery_status veery_tensor_less_equal(const veery_tensor* a, const veery_tensor* b,
                                               veery_tensor** out);
VEERY_API veery_status veery_tensor_greater(const veery_tensor* a, const veery_tensor* b,
                                            veery_tensor** out);
VEERY_API veery_status veery_tensor_greater_equal(const veery_tensor* a, const veery_tensor* b,
                                                  veery_tensor** out);
/* bool; numbers other than 0 are true. */
VEERY_API veery_status veery_tensor_logical_and(const veery_tensor* a, const veery_tensor* b,
                                                veery_tensor** out);
VEERY_API veery_status veery_tensor_logical_or(const veery_tensor* a, const veery_tensor* b,
                                               veery_tensor** out);
VEERY_API veery_status veery_tensor_logical_xor(const veery_tensor* a, const veery_tensor* b,
                                                veery_tensor** out);
/* Integers and bools; floats are refused. */
VEERY_API veery_status veery_tensor_bitwise_and(const veery_tensor* a, const veery_tensor* b,
                                                veery_tensor** out);
VEERY_API veery_status veery_tensor_bitwise_or(const veery_tensor* a, const veery_tensor* b,
                                               veery_tensor** out);
VEERY_API veery_status veery_tensor_bitwise_xor(const veery_tensor* a, const veery_tensor* b,
                                                veery_tensor** out);
/* Integers. A shift by less than 0 or by all bits shifts all bits out. */
VEERY_API veery_status veery_tensor_bitwise_left_shift(const veery_tensor* a, const veery_tensor* b,
                                                       veery_tensor** out);
VEERY_API veery_status veery_tensor_bitwise_right_shift(const veery_tensor* a,
                                                        const veery_tensor* b, veery_tensor** out);

/* ---- element-wise, one operand ---- */

VEERY_API veery_status veery_tensor_logical_not(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_bitwise_invert(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_isnan(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_isinf(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_isfinite(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_negative(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_abs(const veery_tensor* x, veery_tensor** out);
/* -1, 0 or 1; NaN for NaN. */
VEERY_API veery_status veery_tensor_sign(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_square(const veery_tensor* x, veery_tensor** out);
/* Floats; integers give f32, up to softplus(). */
VEERY_API veery_status veery_tensor_exp(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_exp2(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_expm1(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_log(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_log2(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_log10(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_log1p(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_sqrt(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_rsqrt(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_reciprocal(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_sin(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_cos(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_tan(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_asin(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_acos(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_atan(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_sinh(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_cosh(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_tanh(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_asinh(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_acosh(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_atanh(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_erf(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_erfinv(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_sigmoid(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_relu(const veery_tensor* x, veery_tensor** out);
/* x sigmoid(x) */
VEERY_API veery_status veery_tensor_silu(const veery_tensor* x, veery_tensor** out);
/* x (1 + erf(x / sqrt 2)) / 2 */
VEERY_API veery_status veery_tensor_gelu(const veery_tensor* x, veery_tensor** out);
/* Its approximation with tanh. */
VEERY_API veery_status veery_tensor_gelu_tanh(const veery_tensor* x, veery_tensor** out);
/* x sigmoid(1.702 x) */
VEERY_API veery_status veery_tensor_gelu_fast(const veery_tensor* x, veery_tensor** out);
/* ln(1 + e^x) */
VEERY_API veery_status veery_tensor_softplus(const veery_tensor* x, veery_tensor** out);
/* Floats; integers stay as they are. */
VEERY_API veery_status veery_tensor_floor(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_ceil(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_trunc(const veery_tensor* x, veery_tensor** out);
/* Halves to even. */
VEERY_API veery_status veery_tensor_round(const veery_tensor* x, veery_tensor** out);

/* ---- element-wise, three operands ---- */

/* Elements of `yes` where the condition is true, else of `no`. */
VEERY_API veery_status veery_tensor_where(const veery_tensor* condition, const veery_tensor* yes,
                                          const veery_tensor* no, veery_tensor** out);
/* min(max(x, low), high). `low` and `high`: numbers of veery_tensor_scalar(), or null for no
 * limit. */
VEERY_API veery_status veery_tensor_clip(const veery_tensor* x, const veery_tensor* low,
                                         const veery_tensor* high, veery_tensor** out);

/* ---- reductions ----
 * `axis_count` 0: all axes. `keep` not 0: reduced axes stay, with size 1. */

/* Integers and bools are summed as i64. */
VEERY_API veery_status veery_tensor_sum(const veery_tensor* x, const int32_t* axes,
                                        size_t axis_count, int32_t keep, veery_tensor** out);
VEERY_API veery_status veery_tensor_prod(const veery_tensor* x, const int32_t* axes,
                                         size_t axis_count, int32_t keep, veery_tensor** out);
/* Floats; integers give f32. */
VEERY_API veery_status veery_tensor_mean(const veery_tensor* x, const int32_t* axes,
                                         size_t axis_count, int32_t keep, veery_tensor** out);
/* The mean squared distance from the mean, over count - correction. */
VEERY_API veery_status veery_tensor_var(const veery_tensor* x, const int32_t* axes,
                                        size_t axis_count, int32_t keep, double correction,
                                        veery_tensor** out);
/* Its square root. */
VEERY_API veery_status veery_tensor_std_dev(const veery_tensor* x, const int32_t* axes,
                                            size_t axis_count, int32_t keep, double correction,
                                            veery_tensor** out);
/* NaN if one is NaN. Reduced axes must not be empty. */
VEERY_API veery_status veery_tensor_min(const veery_tensor* x, const int32_t* axes,
                                        size_t axis_count, int32_t keep, veery_tensor** out);
VEERY_API veery_status veery_tensor_max(const veery_tensor* x, const int32_t* axes,
                                        size_t axis_count, int32_t keep, veery_tensor** out);
/* bool. */
VEERY_API veery_status veery_tensor_any(const veery_tensor* x, const int32_t* axes,
                                        size_t axis_count, int32_t keep, veery_tensor** out);
VEERY_API veery_status veery_tensor_all(const veery_tensor* x, const int32_t* axes,
                                        size_t axis_count, int32_t keep, veery_tensor** out);
/* ln(sum(e^x)) */
VEERY_API veery_status veery_tensor_logsumexp(const veery_tensor* x, const int32_t* axes,
                                              size_t axis_count, int32_t keep, veery_tensor** out);
/* e^x over its sum along an axis. */
VEERY_API veery_status veery_tensor_softmax(const veery_tensor* x, int32_t axis,
                                            veery_tensor** out);
VEERY_API veery_status veery_tensor_log_softmax(const veery_tensor* x, int32_t axis,
                                                veery_tensor** out);

/* ---- matrix products ---- */

/* The product over the last axis of `a` and the second to last of `b`, as in numpy: vectors are
 * allowed, other axes are broadcast. Floats. */
VEERY_API veery_status veery_tensor_matmul(const veery_tensor* a, const veery_tensor* b,
                                           veery_tensor** out);

/* ---- views: no copy, unless a reshape needs one ---- */

/* One size may be -1: it follows from the others. */
VEERY_API veery_status veery_tensor_reshape(const veery_tensor* x, const int64_t* shape,
                                            size_t rank, veery_tensor** out);
/* Dimension i of the result is dimension axes[i] of x. `axis_count` 0: reversed. */
VEERY_API veery_status veery_tensor_transpose(const veery_tensor* x, const int32_t* axes,
                                              size_t axis_count, veery_tensor** out);
VEERY_API veery_status veery_tensor_swapaxes(const veery_tensor* x, int32_t a, int32_t b,
                                             veery_tensor** out);
VEERY_API veery_status veery_tensor_broadcast_to(const veery_tensor* x, const int64_t* shape,
                                                 size_t rank, veery_tensor** out);
/* Inserts a dimension of size 1, which becomes dimension `axis` of the result. */
VEERY_API veery_status veery_tensor_expand_dims(const veery_tensor* x, int32_t axis,
                                                veery_tensor** out);
/* Removes dimensions of size 1. `axis_count` 0: all of them. */
VEERY_API veery_status veery_tensor_squeeze(const veery_tensor* x, const int32_t* axes,
                                            size_t axis_count, veery_tensor** out);
VEERY_API veery_status veery_tensor_flatten(const veery_tensor* x, veery_tensor** out);
VEERY_API veery_status veery_tensor_flip(const veery_tensor* x, const int32_t* axes,
                                         size_t axis_count, veery_tensor** out);
/* start:stop:step of one axis as in Python. A bound of VEERY_SLICE_NONE is absent: the end in the
 * direction of the step. */
typedef struct veery_slice {
  int64_t start, stop, step;
} veery_slice;
#define VEERY_SLICE_NONE INT64_MIN
/* One slice for each axis; axes without one are taken whole. */
VEERY_API veery_status veery_tensor_slice(const veery_tensor* x, const veery_slice* slices,
                                          size_t slice_count, veery_tensor** out);

/* ---- movement ---- */

/* Joins parts along an axis. */
VEERY_API veery_status veery_tensor_concatenate(veery_tensor* const* parts, size_t part_count,
                                                int32_t axis, veery_tensor** out);
/* Joins parts along a new axis. */
VEERY_API veery_status veery_tensor_stack(veery_tensor* const* parts, size_t part_count,
                                          int32_t axis, veery_tensor** out);
/* Divides an axis into equal parts. The caller provides `part_count` entries. */
VEERY_API veery_status veery_tensor_split(const veery_tensor* x, size_t part_count, int32_t axis,
                                          veery_tensor** parts);
/* x with slices of it replaced by `update`, which is broadcast to them. */
VEERY_API veery_status veery_tensor_slice_update(const veery_tensor* x, const veery_slice* slices,
                                                 size_t slice_count, const veery_tensor* update,
                                                 veery_tensor** out);
/* Elements that are added at the two ends of an axis. */
typedef struct veery_pad {
  int64_t before, after;
} veery_pad;
/* One pair of widths for each axis. The new elements are `value`, of the type of x. */
VEERY_API veery_status veery_tensor_pad(const veery_tensor* x, const veery_pad* widths,
                                        size_t width_count, double value, veery_tensor** out);
/* Each element `count` times in a row. */
VEERY_API veery_status veery_tensor_repeat(const veery_tensor* x, int64_t count, int32_t axis,
                                           veery_tensor** out);
/* The whole tensor several times along each axis. */
VEERY_API veery_status veery_tensor_tile(const veery_tensor* x, const int64_t* counts,
                                         size_t count_count, veery_tensor** out);
/* Element i moves to i + shift, around the end. */
VEERY_API veery_status veery_tensor_roll(const veery_tensor* x, int64_t shift, int32_t axis,
                                         veery_tensor** out);

/* ---- indexing ----
 * Indices are integers; negative ones count from the end. Evaluation returns VEERY_ERROR_INPUT for
 * others outside of the axis. */

/* Elements `indices` of an axis, which the dimensions of `indices` replace. */
VEERY_API veery_status veery_tensor_take(const veery_tensor* x, const veery_tensor* indices,
                                         int32_t axis, veery_tensor** out);
/* x with `updates`, of the shape of take(x, indices, axis), added at `indices`, in their order. */
VEERY_API veery_status veery_tensor_scatter_add(const veery_tensor* x, const veery_tensor* indices,
                                                const veery_tensor* updates, int32_t axis,
                                                veery_tensor** out);
/* y[.., j, ..] = x[.., indices[.., j, ..], ..] along `axis`; the other axes are broadcast. */
VEERY_API veery_status veery_tensor_take_along_axis(const veery_tensor* x,
                                                    const veery_tensor* indices, int32_t axis,
                                                    veery_tensor** out);
/* x with `updates` of the shape of `indices` added where take_along_axis() reads. */
VEERY_API veery_status veery_tensor_scatter_add_along_axis(const veery_tensor* x,
                                                           const veery_tensor* indices,
                                                           const veery_tensor* updates,
                                                           int32_t axis, veery_tensor** out);
/* [.., classes]: 1 at the index, 0 elsewhere; all 0 for an index outside of the classes. */
VEERY_API veery_status veery_tensor_one_hot(const veery_tensor* indices, int64_t classes,
                                            int32_t dtype, veery_tensor** out);

/* ---- order ----
 * NaN counts as the largest number. Equal elements keep their order. Indices are i64. */

/* The index of the first largest element along an axis. `axis` null: of the flat tensor. */
VEERY_API veery_status veery_tensor_argmax(const veery_tensor* x, const int32_t* axis, int32_t keep,
                                           veery_tensor** out);
VEERY_API veery_status veery_tensor_argmin(const veery_tensor* x, const int32_t* axis, int32_t keep,
                                           veery_tensor** out);
VEERY_API veery_status veery_tensor_argsort(const veery_tensor* x, int32_t axis, int32_t descending,
                                            veery_tensor** out);
VEERY_API veery_status veery_tensor_sort(const veery_tensor* x, int32_t axis, int32_t descending,
                                         veery_tensor** out);
/* The k largest elements in descending order, and their indices. */
VEERY_API veery_status veery_tensor_top_k(const veery_tensor* x, int64_t k, int32_t axis,
                                          veery_tensor** values, veery_tensor** indices);
/* For each value the number of elements of `sorted` [n] that are less, or, if `right` is not 0, not
 * greater. */
VEERY_API veery_status veery_tensor_searchsorted(const veery_tensor* sorted,
                                                 const veery_tensor* values, int32_t right,
                                                 veery_tensor** out);
/* Running sums and products; integers as i64. */
VEERY_API veery_status veery_tensor_cumsum(const veery_tensor* x, int32_t axis, veery_tensor** out);
VEERY_API veery_status veery_tensor_cumprod(const veery_tensor* x, int32_t axis,
                                            veery_tensor** out);

/* ---- random numbers ----
 * A key is [2] u32. The numbers are a function of key and shape alone (Philox4x32-10): use a key
 * once, and split it for more. */

VEERY_API veery_status veery_tensor_random_key(uint64_t seed, veery_tensor** out);
/* `count` keys: [count, 2]. */
VEERY_API veery_status veery_tensor_random_split(const veery_tensor* key, int64_t count,
                                                 veery_tensor** out);
/* u32. */
VEERY_API veery_status veery_tensor_random_bits(const veery_tensor* key, const int64_t* shape,
                                                size_t rank, veery_tensor** out);
/* From `low` to below `high`. */
VEERY_API veery_status veery_tensor_random_uniform(const veery_tensor* key, const int64_t* shape,
                                                   size_t rank, double low, double high,
                                                   int32_t dtype, veery_tensor** out);
VEERY_API veery_status veery_tensor_random_normal(const veery_tensor* key, const int64_t* shape,
                                                  size_t rank, double mean, double deviation,
                                                  int32_t dtype, veery_tensor** out);
/* Standard normal numbers, restricted to [`low`, `high`]. */
VEERY_API veery_status veery_tensor_random_truncated_normal(const veery_tensor* key,
                                                            const int64_t* shape, size_t rank,
                                                            double low, double high, int32_t dtype,
                                                            veery_tensor** out);
/* From `low` to below `high`, at most 2^32 numbers. */
VEERY_API veery_status veery_tensor_random_randint(const veery_tensor* key, const int64_t* shape,
                                                   size_t rank, int64_t low, int64_t high,
                                                   int32_t dtype, veery_tensor** out);
/* bool, of the shape of `probability`. */
VEERY_API veery_status veery_tensor_random_bernoulli(const veery_tensor* key,
                                                     const veery_tensor* probability,
                                                     veery_tensor** out);
VEERY_API veery_status veery_tensor_random_gumbel(const veery_tensor* key, const int64_t* shape,
                                                  size_t rank, int32_t dtype, veery_tensor** out);
/* Indices drawn with probabilities softmax(logits) along `axis`. */
VEERY_API veery_status veery_tensor_random_categorical(const veery_tensor* key,
                                                       const veery_tensor* logits, int32_t axis,
                                                       veery_tensor** out);
/* 0 to count - 1 in random order. */
VEERY_API veery_status veery_tensor_random_permutation(const veery_tensor* key, int64_t count,
                                                       veery_tensor** out);

/* ---- derivatives ---- */

/* A function of tensors. Reads `inputs`, which are valid during the call (retain one to keep it),
 * and writes `output_count` handles to `outputs`, whose entries are null before; the library frees
 * these. Returns VEERY_OK. Any other status makes the call that called it fail with this status and
 * the message of the last failed call or of veery_tensor_fail(). Must not throw. It may evaluate
 * tensors. */
typedef veery_status (*veery_tensor_function)(void* user, veery_tensor* const* inputs,
                                              size_t input_count, veery_tensor** outputs,
                                              size_t output_count);
/* Sets the message that veery_last_message() returns, for a veery_tensor_function that fails.
 * Returns `status`; VEERY_ERROR_INPUT if that is no error. */
VEERY_API veery_status veery_tensor_fail(veery_status status, const char* message);
/* Returns the outputs of the function, and the products of `cotangents`, one for each output, with
 * its Jacobian: one gradient for each input. The caller provides `output_count` and `input_count`
 * entries. `outputs` may be null. */
VEERY_API veery_status veery_tensor_vjp(veery_tensor_function function, void* user,
                                        veery_tensor* const* inputs, size_t input_count,
                                        veery_tensor* const* cotangents, size_t output_count,
                                        veery_tensor** outputs, veery_tensor** gradients);
/* Returns the outputs of the function, and the products of its Jacobian with `tangents`, one for
 * each input: one for each output. The caller provides `output_count` entries for both. `outputs`
 * may be null. */
VEERY_API veery_status veery_tensor_jvp(veery_tensor_function function, void* user,
                                        veery_tensor* const* inputs, size_t input_count,
                                        veery_tensor* const* tangents, size_t output_count,
                                        veery_tensor** outputs, veery_tensor** output_tangents);
/* Returns the only output of the function, which has one element, and its gradients with respect to
 * inputs `argnums`. `argnum_count` 0: input 0. The caller provides an entry of `gradients` for
 * each. */
VEERY_API veery_status veery_tensor_value_and_grad(veery_tensor_function function, void* user,
                                                   veery_tensor* const* inputs, size_t input_count,
                                                   const int32_t* argnums, size_t argnum_count,
                                                   veery_tensor** value, veery_tensor** gradients);
/* The same without the value. */
VEERY_API veery_status veery_tensor_grad(veery_tensor_function function, void* user,
                                         veery_tensor* const* inputs, size_t input_count,
                                         const int32_t* argnums, size_t argnum_count,
                                         veery_tensor** gradients);
/* Calls the function. Derivatives that pass the outputs call it again instead of keeping its
 * intermediate results, so `user` must stay valid until `release`, which may be null, is called
 * with it: once, also after an error, by any thread; it must not call functions of this library. */
VEERY_API veery_status veery_tensor_checkpoint(veery_tensor_function function, void* user,
                                               veery_tensor* const* inputs, size_t input_count,
                                               veery_tensor_release release, size_t output_count,
                                               veery_tensor** outputs);
/* x as a constant: derivatives do not pass it. */
VEERY_API veery_status veery_tensor_stop_gradient(const veery_tensor* x, veery_tensor** out);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

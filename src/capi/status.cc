#include "capi/status.h"

#include <exception>
#include <new>
#include <string>
#include <veery/tensor.hpp>

#include "base/error.h"
#include "base/utf8.h"

namespace veery::capi {
namespace {

thread_local std::string last_message;
thread_local uint64_t messages = 0;

veery_status keep(veery_status status, const char* message) noexcept {
  ++messages;
  try {
    last_message = valid_utf8(message);
  } catch (...) {
    last_message.clear();  // out of memory
  }
  return status;
}

veery_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInput: return VEERY_ERROR_INPUT;
    case ErrorKind::kFormat: return VEERY_ERROR_FORMAT;
    case ErrorKind::kUnsupported: return VEERY_ERROR_UNSUPPORTED;
    case ErrorKind::kLimit: return VEERY_ERROR_LIMIT;
    case ErrorKind::kNotFound: return VEERY_ERROR_NOT_FOUND;
    case ErrorKind::kIo: return VEERY_ERROR_IO;
    case ErrorKind::kBug: return VEERY_ERROR_BUG;
  }
  return VEERY_ERROR_BUG;
}

veery_status status_of(tensor::ErrorKind kind) {
  switch (kind) {
    case tensor::ErrorKind::kInput: return VEERY_ERROR_INPUT;
    case tensor::ErrorKind::kUnsupported: return VEERY_ERROR_UNSUPPORTED;
    case tensor::ErrorKind::kLimit: return VEERY_ERROR_LIMIT;
    case tensor::ErrorKind::kInternal: return VEERY_ERROR_BUG;
    case tensor::ErrorKind::kFormat: return VEERY_ERROR_FORMAT;
    case tensor::ErrorKind::kNotFound: return VEERY_ERROR_NOT_FOUND;
    case tensor::ErrorKind::kIo: return VEERY_ERROR_IO;
  }
  return VEERY_ERROR_BUG;
}

}  // namespace

veery_status status_of_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return keep(status_of(error.kind()), error.what());
  } catch (const tensor::Error& error) {
    return keep(status_of(error.kind()), error.what());
  } catch (const CallbackFailure& error) {
    return fail_with(error.status(), error.what());
  } catch (const Busy& error) {
    return keep(VEERY_ERROR_BUSY, error.what());
  } catch (const std::bad_alloc&) {
    return keep(VEERY_ERROR_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return keep(VEERY_ERROR_BUG, error.what());
  } catch (...) {
    return keep(VEERY_ERROR_BUG, "an exception of an unknown type");
  }
}

veery_status fail_with(veery_status status, const char* message) noexcept {
  const bool is_error = status >= VEERY_ERROR_INPUT && status <= VEERY_ERROR_BUSY;
  return keep(is_error ? status : VEERY_ERROR_INPUT, message);
}

uint64_t failure_count() noexcept { return messages; }

}  // namespace veery::capi

using namespace veery::capi;

const char* veery_version(void) { return VEERY_VERSION; }

const char* veery_status_name(veery_status status) {
  switch (status) {
    case VEERY_OK: return "ok";
    case VEERY_ERROR_INPUT: return "input";
    case VEERY_ERROR_FORMAT: return "format";
    case VEERY_ERROR_UNSUPPORTED: return "unsupported";
    case VEERY_ERROR_LIMIT: return "limit";
    case VEERY_ERROR_NOT_FOUND: return "not found";
    case VEERY_ERROR_IO: return "io";
    case VEERY_ERROR_BUG: return "bug";
    case VEERY_ERROR_MEMORY: return "memory";
    case VEERY_ERROR_BUSY: return "busy";
    case VEERY_END: return "end";
    case VEERY_TIMEOUT: return "timeout";
  }
  return "unknown";
}

const char* veery_last_message(void) { return last_message.c_str(); }

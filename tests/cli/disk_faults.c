/* disk_faults.c: a library to be preloaded that makes calls on some files fail, as a full disk, a broken one or a
 * server that has forgotten a file would.
 *
 * VEERY_FAULT_PATH   part of the path of the files
 * VEERY_FAULT_CALL   write, fsync, close, rename, read, stat or open
 * VEERY_FAULT_ERRNO  what the call fails with
 * VEERY_FAULT_AFTER  bytes that are read or written before that */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static long long moved; /* bytes */

static const char* setting(const char* name) {
  const char* value = getenv(name);
  return value != NULL ? value : "";
}

static int meant(const char* call, const char* path) {
  const char* part = setting("VEERY_FAULT_PATH");
  return *part != 0 && strcmp(setting("VEERY_FAULT_CALL"), call) == 0 && path != NULL && strstr(path, part) != NULL;
}

static int meant_fd(const char* call, int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return meant(call, path);
}

static int fails(void) {
  errno = atoi(setting("VEERY_FAULT_ERRNO"));
  return -1;
}

/* Whether `size` more bytes are too many. */
static int too_many(size_t size) {
  const long long after = atoll(setting("VEERY_FAULT_AFTER"));
  return __sync_add_and_fetch(&moved, (long long)size) > after;
}

#define REAL(type, name, ...)                       \
  static type (*real)(__VA_ARGS__);                 \
  if (real == NULL) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define WRITER(name, arguments, call, ...)                       \
  ssize_t name arguments {                                       \
    REAL(ssize_t, #name, __VA_ARGS__);                           \
    if (meant_fd("write", fd) && too_many(size)) return fails(); \
    return real call;                                            \
  }
WRITER(write, (int fd, const void* data, size_t size), (fd, data, size), int, const void*, size_t)
WRITER(pwrite, (int fd, const void* data, size_t size, off_t at), (fd, data, size, at), int, const void*, size_t, off_t)
WRITER(pwrite64, (int fd, const void* data, size_t size, off64_t at), (fd, data, size, at), int, const void*, size_t,
       off64_t)

#define READER(name, arguments, call, ...)                      \
  ssize_t name arguments {                                      \
    REAL(ssize_t, #name, __VA_ARGS__);                          \
    if (meant_fd("read", fd) && too_many(size)) return fails(); \
    return real call;                                           \
  }
READER(read, (int fd, void* data, size_t size), (fd, data, size), int, void*, size_t)
READER(pread, (int fd, void* data, size_t size, off_t at), (fd, data, size, at), int, void*, size_t, off_t)
READER(pread64, (int fd, void* data, size_t size, off64_t at), (fd, data, size, at), int, void*, size_t, off64_t)

int fsync(int fd) {
  REAL(int, "fsync", int);
  return meant_fd("fsync", fd) ? fails() : real(fd);
}

int close(int fd) {
  REAL(int, "close", int);
  const int fault = meant_fd("close", fd);
  const int result = real(fd);
  return fault ? fails() : result;
}

int rename(const char* from, const char* to) {
  REAL(int, "rename", const char*, const char*);
  return meant("rename", to) ? fails() : real(from, to);
}

int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) {
  REAL(int, "renameat2", int, const char*, int, const char*, unsigned);
  return meant("rename", to) ? fails() : real(from_at, from, to_at, to, flags);
}

int fstat(int fd, struct stat* status) {
  REAL(int, "fstat", int, struct stat*);
  return meant_fd("stat", fd) ? fails() : real(fd, status);
}

int fstat64(int fd, struct stat64* status) {
  REAL(int, "fstat64", int, struct stat64*);
  return meant_fd("stat", fd) ? fails() : real(fd, status);
}

#define OPENER(name)                                               \
  int name(const char* path, int flags, ...) {                     \
    REAL(int, #name, const char*, int, ...);                       \
    if (meant("open", path)) return fails();                       \
    if ((flags & (O_CREAT | __O_TMPFILE)) == 0) return real(path, flags); \
    va_list more;                                                  \
    va_start(more, flags);                                         \
    const mode_t mode = va_arg(more, mode_t);                      \
    va_end(more);                                                  \
    return real(path, flags, mode);                                \
  }
OPENER(open)
OPENER(open64)

#include "kernels/metal/metal.h"

#include "base/error.h"
#include "kernels/find_backend.h"
#include "kernels/metal/machine.h"

namespace veery {

#if !defined(__APPLE__)
std::unique_ptr<metal::Driver> metal::find_driver(std::string& why) {
  why = "Metal is available on macOS only";
  return nullptr;
}
#endif

std::string metal_refusal() {
  std::string why;
  metal::find_driver(why);
  return why;
}

std::shared_ptr<Backend> make_metal_backend() {
  std::string why;
  std::unique_ptr<metal::Driver> driver = metal::find_driver(why);
  if (!driver) throw Error(ErrorKind::kUnsupported, "device metal: {}", why);
  return gpu::make_backend(metal::make_machine(std::move(driver), metal::kShaders));
}

}  // namespace veery

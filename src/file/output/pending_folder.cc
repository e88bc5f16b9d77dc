#include "file/output/pending_folder.h"

#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/untrusted_file.h"
#include "file/output/output_path.h"
#include "file/output/pending_file.h"

namespace veery {

PendingFolder::PendingFolder(const std::string& path)
    : path_(path), output_(folder_to_write(path), [&](const std::string& temporary) {
        std::error_code code;
        if (!std::filesystem::create_directory(temporary, code))
          throw Error(ErrorKind::kIo, "{}: cannot be created: {}", shown_path(path),
                      code ? code.message() : temporary + " exists");
      }) {}

void PendingFolder::write(const std::string& name, std::string_view text) const {
  if (const size_t slash = name.rfind('/'); slash != std::string::npos) {
    std::error_code code;
    std::filesystem::create_directories(this->file(name.substr(0, slash)), code);
    if (code)
      throw Error(ErrorKind::kIo, "{}: cannot be created: {}", shown_path(path_ + "/" + name),
                  code.message());
  }
  PendingFile file(this->file(name));
  file.write(text.data(), text.size());
  file.commit();
}

void PendingFolder::commit() {
  folder_to_write(path_);  // reports what was created there in the meantime
  if (const int code = output_.put_in_place(false))
    throw Error(ErrorKind::kIo, "{}: cannot be put in place: {}", shown_path(path_),
                std::strerror(code));
}

}  // namespace veery

// tls_files.h: the files of a server's certificate.
#pragma once
#include <string>

namespace veery::serve {

/// A certificate chain and its private key, both PEM.
struct TlsFiles {
  std::string certificate, key;  ///< paths; both empty: no TLS
};

}  // namespace veery::serve

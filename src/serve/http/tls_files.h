// tls_files.h: the certificate of a server.
#pragma once
#include <string>

namespace veery::serve {

/// What a server shows who it is with. Both files are PEM; the first holds the certificates that
/// lead to a known one too.
struct TlsFiles {
  std::string certificate, key;  ///< paths; both empty: no TLS
};

}  // namespace veery::serve

#include "text/grammar/language/formats.h"

#include <map>
#include <mutex>
#include <string>

#include "text/grammar/language/pattern.h"

namespace veery::schema {
namespace {

// Parts of patterns. Leap years are divisible by 4; century years must be divisible by 400.
const std::string kLeapYear =
    "([0-9][0-9](0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)";
const std::string kDate =
    "([0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|"
    "[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|" +
    kLeapYear + "-02-29)";
// Years start at 0001: Python's date has no year 0.
const std::string kYears = "(?!0000)";
const std::string kTime =
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
const std::string kOctet = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const std::string kIpv4 = "(" + kOctet + "\\.){3}" + kOctet;
const std::string kLabel = "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
const std::string kName = "[a-zA-Z0-9](-*[a-zA-Z0-9])*";  // a label of any length
const std::string kAtom = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+";
const std::string kHex = "[0-9a-fA-F]";
const std::string kEscaped = "%" + kHex + "{2}";
const std::string kPlain = "[a-zA-Z0-9._~!$&'()*+,;=:@-]|" + kEscaped;
const std::string kQuery = "(\\?(" + kPlain + "|[/?])*)?(#(" + kPlain + "|[/?])*)?";

std::string ipv6() {
  const std::string group = kHex + "{1,4}";
  std::string forms = "(" + group + ":){7}" + group + "|(" + group + ":){6}" + kIpv4;
  for (int before = 0; before <= 7; ++before) {
    const std::string left =
        before == 0 ? "" : group + "(:" + group + "){" + std::to_string(before - 1) + "}";
    const int rest = 7 - before;  // maximum number of groups after "::"
    forms += "|" + left + "::";
    if (rest > 0) forms += "(" + group + "(:" + group + "){0," + std::to_string(rest - 1) + "})?";
    if (rest >= 2)
      forms += "|" + left + "::(" + group + ":){0," + std::to_string(rest - 2) + "}" + kIpv4;
  }
  return "^(" + forms + ")$";
}

std::string uri(bool reference) {
  const std::string character = "(" + kPlain + ")";
  const std::string segments = "(/" + character + "*)*";
  const std::string host = "([a-zA-Z0-9._~!$&'()*+,;=-]|" + kEscaped + ")*";
  const std::string rooted = "//(" + character + "*@)?" + host + "(:[0-9]*)?" + segments + "|/(" +
                             character + "+" + segments + ")?";
  const std::string absolute =
      "[a-zA-Z][a-zA-Z0-9+.-]*:(" + rooted + "|" + character + "+" + segments + "|)";
  if (!reference) return "^" + absolute + kQuery + "$";
  // The first segment of a relative path has no colon (RFC 3986, section 4.2).
  const std::string first = "([a-zA-Z0-9._~!$&'()*+,;=@-]|" + kEscaped + ")+";
  return "^(" + absolute + "|" + rooted + "|" + first + segments + "|)" + kQuery + "$";
}

std::string pattern_of(std::string_view name) {
  if (name == "date") return "^" + kYears + kDate + "$";
  if (name == "time") return "^" + kTime + "$";
  if (name == "date-time") return "^" + kYears + kDate + "T" + kTime + "$";
  if (name == "duration")
    return "^P(?=.)([0-9]+W|([0-9]+Y([0-9]+M([0-9]+D)?)?|[0-9]+M([0-9]+D)?|[0-9]+D)?"
           "(T(?=.)([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S))?)$";
  if (name == "email" || name == "idn-email")
    return "^" + kAtom + "(\\." + kAtom + ")*@" + kName + "(\\." + kName + ")+$";
  if (name == "hostname" || name == "idn-hostname")
    return "^(?![^.]{2}--)(?!.*\\.[^.]{2}--)" + kLabel + "(\\." + kLabel + ")*$";
  if (name == "ipv4" || name == "ip-address") return "^" + kIpv4 + "$";
  if (name == "ipv6") return ipv6();
  if (name == "uuid") return "^" + kHex + "{8}(-" + kHex + "{4}){3}-" + kHex + "{12}$";
  if (name == "uri" || name == "iri") return uri(false);
  if (name == "uri-reference" || name == "iri-reference") return uri(true);
  if (name == "json-pointer") return "^(/([^~/]|~[01])*)*$";
  if (name == "relative-json-pointer") return "^(0|[1-9][0-9]*)(#|(/([^~/]|~[01])*)*)$";
  return {};
}

}  // namespace

std::shared_ptr<const Dfa> format_language(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const Dfa>, std::less<>> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(name); found != known.end()) return found->second;
  const std::string pattern = pattern_of(name);
  if (pattern.empty()) return nullptr;
  return known.emplace(name, std::make_shared<const Dfa>(pattern_language(pattern))).first->second;
}

}  // namespace veery::schema

#include "replay/report.h"
namespace sluice::replay { std::string html_report(const ReplayReport&) { return ""; } }

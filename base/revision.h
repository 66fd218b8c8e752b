/* revision: the commit that the programs were built from, as `git describe` names it. CMake writes its source. */
#pragma once

extern const char revision_name[];

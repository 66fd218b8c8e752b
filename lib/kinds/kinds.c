/* The table of kinds. A build for tests names another list than kinds.def. */
#include "work/kind.h"

#ifndef BRR_KINDS
#define BRR_KINDS "kinds/kinds.def"
#endif

#define KIND(name) extern const struct task_kind kind_##name;
#include BRR_KINDS
#undef KIND

const struct task_kind *const task_kinds[] = {
#define KIND(name) &kind_##name,
#include BRR_KINDS
#undef KIND
};
const int task_kind_count = sizeof task_kinds / sizeof *task_kinds;

/* The table of what the kinds do, row by row beside that of kinds.c; apart from it, since the client links only that one. */
#include "work/task.h"

#ifndef BRR_KINDS
#define BRR_KINDS "kinds/kinds.def"
#endif

#define KIND(name) extern const struct task_work work_##name;
#include BRR_KINDS
#undef KIND

const struct task_work *const task_works[] = {
#define KIND(name) &work_##name,
#include BRR_KINDS
#undef KIND
};

const struct task_work *task_work_of(const struct task_kind *kind) {
    int i = 0;
    while (task_kinds[i] != kind)
        i++;
    return task_works[i];
}

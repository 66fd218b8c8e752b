#include "run/task.h"

#include <string.h>

const struct task_kind *task_kind_find(const char *name) {
    const struct task_kind *kinds[] = {task_train(), task_evaluate()};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i]->name, name))
            return kinds[i];
    return NULL;
}

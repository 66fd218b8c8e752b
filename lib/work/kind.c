#include "work/kind.h"

const struct task_kind *task_kind_find(const char *name) {
    for (int i = 0; i < task_kind_count; i++)
        if (!strcmp(task_kinds[i]->name, name))
            return task_kinds[i];
    return NULL;
}

const char *task_kind_names(char *buf, size_t size) {
    size_t len = 0;
    *buf = '\0';
    for (int i = 0; i < task_kind_count && len < size; i++) {
        const char *between = !i ? "" : i + 1 < task_kind_count ? ", " : " or ";
        str_format(buf + len, size - len, "%s%s", between, task_kinds[i]->name);
        len += strlen(buf + len);
    }
    return buf;
}

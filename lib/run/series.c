#include "run/series.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

static const char ending[] = ".safetensors";

int series_path(const struct series *s, int64_t number, char path[SERIES_PATH], struct err *err) {
    bool ok =
        str_format(path, SERIES_PATH, "%s/checkpoints/%s-%0*lld%s", s->directory, s->word, s->digits, (long long)number, ending);
    return ok ? 0 : err_set(err, ERR_RANGE, "path too long: %.200s…", s->directory);
}

/* False: a file of another name. */
static bool number_of(const struct series *s, const char *name, int64_t *ret) {
    char digits[32];
    size_t head = strlen(s->word) + 1, tail = strlen(ending), len = strlen(name);
    return str_starts(name, s->word) && len > head + tail && name[head - 1] == '-' && str_ends(name, ending) &&
           str_format(digits, sizeof digits, "%.*s", (int)(len - head - tail), name + head) && str_to_i64(digits, ret);
}

int series_list(const struct series *s, int64_t numbers[SERIES_MOST]) {
    char dir[SERIES_PATH];
    DIR *d = str_format(dir, sizeof dir, "%s/checkpoints", s->directory) ? opendir(dir) : NULL;
    int n = 0;
    for (struct dirent *e; d && n < SERIES_MOST && (e = readdir(d));) {
        int64_t number;
        if (!number_of(s, e->d_name, &number))
            continue;
        int at = n++;
        for (; at > 0 && numbers[at - 1] < number; at--)
            numbers[at] = numbers[at - 1];
        numbers[at] = number;
    }
    if (d)
        closedir(d);
    return n;
}

void series_retire(const struct series *s, int64_t keep) {
    int64_t numbers[SERIES_MOST];
    char path[SERIES_PATH];
    int n = series_list(s, numbers);
    for (int64_t i = keep; i < n; i++)
        if (!series_path(s, numbers[i], path, NULL))
            unlink(path);
}

#include "formats/side.h"

enum { NAMED = 4, MOST_NUMBER = 10, TIMES = 3 };

void side_list(const char *const *names, int n, uint32_t bits, char ret[SIDE_LIST]) {
    const uint32_t all = (uint32_t)((UINT64_C(1) << n) - 1);
    size_t len = 0;
    *ret = '\0';
    if (bits && bits == all) {
        str_copy(ret, SIDE_LIST, "all");
        return;
    }
    for (int i = 0; i < n; i++)
        if (bits >> i & 1) {
            if (!str_format(ret + len, SIDE_LIST - len, "%s%s", len ? "," : "", names[i])) {
                *ret = '\0';
                return;
            }
            len = strlen(ret);
        }
}

/* -1: left, 1: right, 0: midline, 2: no electrode of the 10-20 system. */
static int side_of_electrode(const char *name, size_t len) {
    static const char *const areas[] = {"fp", "af", "f", "fc", "ft", "t", "tp", "c", "cp", "p", "po", "o", "a", "m", "i"};
    char area[4] = "";
    size_t n = 0;
    while (n < len && isalpha((unsigned char)name[n]) && tolower((unsigned char)name[n]) != 'z' && n < sizeof area - 1) {
        area[n] = (char)tolower((unsigned char)name[n]);
        n++;
    }
    if (STR_AMONG(area, areas) < 0 || n == len)
        return 2;
    if (n + 1 == len && tolower((unsigned char)name[n]) == 'z')
        return 0;
    char *end = NULL;
    const long number = strtol(name + n, &end, 10);
    return end != name + len || number < 1 || number > MOST_NUMBER ? 2 : number % 2 ? -1 : 1;
}

/* Of an electrode or a difference of two; 0 where these lie on both sides. */
static int side_of_channel(const char *name, size_t len) {
    const char *dash = memchr(name, '-', len);
    const size_t first = dash ? (size_t)(dash - name) : len;
    const int a = side_of_electrode(name, first), b = dash ? side_of_electrode(dash + 1, len - first - 1) : a;
    return a == 2 || b == 2 ? 2 : a == b ? a : a + b;
}

const char *side_of(const char *list) {
    int counts[3] = {0}, *const on = counts + 1; /* by side */
    if (!strcmp(list, "all"))
        return "both";
    for (const char *at = list; *at; at += *at == ',') {
        const size_t len = strcspn(at, ",");
        const int side = side_of_channel(at, len);
        if (side == 2)
            return "";
        on[side]++;
        at += len;
    }
    if (!*list)
        return "";
    if (on[-1] + on[1] == 0)
        return "midline";
    return on[-1] >= TIMES * on[1] ? "left" : on[1] >= TIMES * on[-1] ? "right" : "both";
}

void side_text(const char *list, char ret[SIDE_TEXT]) {
    const char *side = side_of(list), *at = list;
    int left = 0;
    *ret = '\0';
    if (!strcmp(list, "all"))
        str_copy(ret, SIDE_TEXT, "all channels");
    if (!*list || *ret)
        return;
    str_format(ret, SIDE_TEXT, "%s%s%s", side, strcmp(side, "both") ? "" : " sides", *side ? ": " : "");
    for (int i = 0; *at; i++, at += *at == ',') {
        const size_t len = strcspn(at, ","), used = strlen(ret);
        if (i < NAMED && used + len + sizeof ", and 99 more" < SIDE_TEXT)
            str_format(ret + used, SIDE_TEXT - used, "%s%.*s", i ? ", " : "", (int)len, at);
        else
            left++;
        at += len;
    }
    if (left)
        str_format(ret + strlen(ret), SIDE_TEXT - strlen(ret), " and %d more", left);
}

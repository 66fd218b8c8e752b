#include "base/counted.h"

#include <stdio.h>

#include "base/str.h"

struct counted counted(int64_t n, const char *noun) {
    struct counted ret;
    char digits[24], grouped[32];
    uint64_t size = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)size), at = 0;
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            grouped[at++] = ',';
        grouped[at++] = digits[i];
    }
    grouped[at] = '\0';
    str_format(ret.text, sizeof ret.text, "%s%s%s%.24s%s", n < 0 ? "-" : "", grouped, *noun ? " " : "", noun,
               *noun && size != 1 ? "s" : "");
    return ret;
}

#include "formats/unit.h"

/* Skips the first of these spellings that `text` begins with, in any letter case. */
static const char *skip_one(const char *text, const char *const *spellings) {
    for (; *spellings; spellings++)
        if (!strncasecmp(text, *spellings, strlen(*spellings)))
            return text + strlen(*spellings);
    return text;
}

/* The field of EDF has 8 characters, so that long spellings arrive cut ("microvol"). A µ of Shift-JIS (83 CA), of GBK and EUC-JP
 * (A6 CC), of code page 437 (E6), and one of UTF-8 that was taken for Latin-1, arrive as the Latin-1 letters of their bytes. */
double unit_factor(const char *unit, bool *ret_assumed) {
    static const struct {
        const char *const spellings[11];
        double factor;
    } prefixes[] = {{{"micro", "mu", "u", "\xC2\xB5", "\xCE\xBC", "\xC2\x83\xC3\x8A", "\xC2\xA6\xC3\x8C", "\xC3\xA6",
                      "\xC3\x82\xC2\xB5", "\xC3\x8E\xC2\xBC", NULL},
                     1},
                    {{"milli", "m", NULL}, 1e3},
                    {{"nano", "n", NULL}, 1e-3}};
    static const char *const volts[] = {"volts", "volt", "vol", "v", NULL};
    *ret_assumed = !*unit || !strcasecmp(unit, "n/a");
    if (*ret_assumed)
        return 1;
    const char *base = unit;
    double factor = 1e6;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && base == unit; i++)
        if ((base = skip_one(unit, prefixes[i].spellings)) != unit)
            factor = prefixes[i].factor;
    const char *end = skip_one(base, volts);
    return end != base && !*end ? factor : 0;
}

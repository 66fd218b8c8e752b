#include "eeg/label_rule.h"

/* ASCII letters and what UTF-8 makes of others; punctuation such as U+2026 and U+FF1F begins with E2 or EF. */
static bool is_letter(char c) {
    unsigned char u = (unsigned char)c;
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (u >= 0x80 && u != 0xE2 && u != 0xEF);
}

/* Byte `at` of a text in lower case: ASCII, and the letters of Latin-1 in UTF-8. */
static char folded(const char *text, size_t at) {
    unsigned char c = (unsigned char)text[at];
    if (c >= 'A' && c <= 'Z')
        return (char)(c + 32);
    bool latin = at && (unsigned char)text[at - 1] == 0xC3 && c >= 0x80 && c <= 0x9E && c != 0x97;
    return (char)(latin ? c + 32 : c);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* True if the number that begins at text[at], a digit, begins further left: with a digit, a sign or a decimal point. A hyphen or
 * point behind a letter ("S-1", "no.1") is none of it. */
static bool number_begins_before(const char *text, size_t at) {
    const char before = at ? text[at - 1] : '\0', two = at > 1 ? text[at - 2] : '\0';
    const bool minus = at > 2 && !memcmp(text + at - 3, "\xE2\x88\x92", 3); /* U+2212 */
    if (is_digit(before))
        return true;
    if (before == ',')
        return is_digit(two);
    return minus || ((before == '-' || before == '+' || before == '.') && !is_letter(two));
}

/* True if the number whose digit is text[at - 1] goes on at text[at]. */
static bool number_goes_on(const char *text, size_t at) {
    if (is_digit(text[at]))
        return true;
    if (!strncmp(text + at, "\xE2\x88\x92", 3))
        return is_digit(text[at + 3]);
    return text[at] && strchr("+-.,", text[at]) && is_digit(text[at + 1]);
}

/* True if text[at], behind a pattern that ends with `last`, belongs to the same word or number. */
static bool text_goes_on(char last, const char *text, size_t at) {
    return (is_letter(text[at]) && is_letter(last)) || (is_digit(last) && number_goes_on(text, at));
}

/* True if the pattern of n bytes is found at text[at], up to the end of a word or number. */
static bool found_at(const char *pattern, size_t n, const char *text, size_t at) {
    size_t p = 0, star = n, resume = 0; /* star: the newest '*' of the pattern, which takes text up to resume */
    while (p < n || text_goes_on(pattern[n - 1], text, at)) {
        if (p < n && pattern[p] == '*') {
            star = p++;
            resume = at;
        } else if (p < n && text[at] && folded(pattern, p) == folded(text, at)) {
            p++;
            at++;
        } else if (star < n && text[resume]) {
            p = star + 1;
            at = ++resume;
        } else {
            return false;
        }
    }
    return true;
}

static bool found(const char *pattern, size_t n, const char *text) {
    for (size_t at = 0; text[at]; at++) {
        bool begins = !at || !is_letter(text[at - 1]) || !is_letter(text[at]) || *pattern == '*';
        if (is_digit(*pattern))
            begins = begins && !number_begins_before(text, at);
        else if (n > 1 && strchr("+-.,", *pattern) && is_digit(pattern[1])) /* "-1", ".5" */
            begins = begins && !(at && is_digit(text[at - 1]));
        if (begins && found_at(pattern, n, text, at))
            return true;
    }
    return false;
}

/* What the patterns say; false when none is found. */
static bool by_patterns(const char *rule, const char *text, enum label_class *ret) {
    bool any = false;
    for (const char *line = rule ? strchr(rule, '\n') : NULL; line; line = strchr(line, '\n')) {
        const char *pattern = ++line;
        enum label_class class = *pattern == '!' ? LABEL_OTHER : *pattern == '?' ? LABEL_UNSURE : LABEL_SEIZURE;
        pattern += class != LABEL_SEIZURE;
        size_t n = strcspn(pattern, "\n");
        if (!n || !found(pattern, n, text))
            continue;
        any = true;
        *ret = class;
    }
    return any;
}

static bool is_word(const char *text, size_t n, const char *const *words) {
    for (; *words; words++)
        if (strlen(*words) == n && !strncasecmp(text, *words, n))
            return true;
    return false;
}

static enum label_class built_in(const char *text) {
    static const char *const seizures[] = {"sz",   "seiz", "seizure", "seizures", "fnsz", "gnsz", "spsz", "cpsz",
                                           "absz", "tnsz", "cnsz",    "tcsz",     "atsz", "mysz", NULL};
    static const char *const unsure[] = {"unknown", NULL};
    size_t n = 0;
    text += strspn(text, " ?([\"'");
    while (is_letter(text[n]))
        n++;
    if (!is_word(text, n, seizures))
        return is_word(text, n, unsure) && !text[n] ? LABEL_UNSURE : LABEL_OTHER;
    const char *next = text + n + strspn(text + n, " -_");
    return next > text + n && !strncasecmp(next, "free", 4) && !is_letter(next[4]) ? LABEL_OTHER : LABEL_SEIZURE;
}

enum label_class label_rule_class(const char *rule, const char *text) {
    enum label_class class;
    if (!by_patterns(rule, text, &class))
        class = built_in(text);
    bool question = strchr(text, '?') || strstr(text, "\xEF\xBC\x9F") /* full width */;
    return class == LABEL_SEIZURE && question ? LABEL_UNSURE : class;
}

const char *label_rule_format(const char *rule, char buf[LABEL_FORMAT_SIZE]) {
    size_t n = strcspn(rule, "\n");
    if (n >= LABEL_FORMAT_SIZE)
        n = 0;
    memcpy(buf, rule, n);
    buf[n] = '\0';
    return buf;
}

int label_rule_write(const char *format, const char *const *patterns, size_t n, char ret[LABEL_RULE_SIZE], struct err *err) {
    bool fits = str_copy(ret, LABEL_RULE_SIZE, format);
    for (size_t i = 0, used; i < n && fits; i++) {
        const char *words = patterns[i] + (*patterns[i] == '!' || *patterns[i] == '?');
        if (!words[strspn(words, " *")] || strchr(words, '\n'))
            return err_set(err, ERR_INVALID, "the pattern '%s' of seizures has no characters; expected one such as \"anfall*\"",
                           patterns[i]);
        used = strlen(ret);
        fits = str_format(ret + used, LABEL_RULE_SIZE - used, "\n%s", patterns[i]);
    }
    return fits ? 0 : err_set(err, ERR_RANGE, "the patterns of seizures are longer than %d bytes", LABEL_RULE_SIZE - 1);
}

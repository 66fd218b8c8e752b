#include "client/brrctl/report/score_table.h"

#include "score/interval.h"

struct score_intervals score_intervals(const struct score *s) {
    const struct score_counts *c = &s->counts;
    const struct interval share = interval_share(c->tp, c->ref), rate = interval_count(c->fp);
    const double days = c->duration_s > 0 ? c->duration_s / 86400 : NAN;
    return (struct score_intervals){c->ref > 0 ? share.low : NAN, c->ref > 0 ? share.high : NAN, rate.low / days, rate.high / days};
}

void score_table_begin(struct str *out, bool latex, const char *first) {
    if (latex)
        str_printf(out,
                   "%% " SCORE_DEFINITION
                   "; 95 %% intervals: Wilson's score of the sensitivity, Poisson limits of the false alarms\n"
                   "\\begin{tabular}{lrrllll}\n%s & hours & seizures & sensitivity & precision & F1 & false alarms / 24 h "
                   "\\\\\n\\hline\n",
                   first);
    else
        str_printf(out,
                   "%s,hours,seizures,found,false_events,sensitivity,sensitivity_low,sensitivity_high,precision,f1,"
                   "false_alarms_per_24h,false_alarms_per_24h_low,false_alarms_per_24h_high\n",
                   first);
}

/* Nothing where the value is not defined. */
static void put_cell(struct str *out, const char *before, double value, int digits) {
    str_puts(out, before);
    if (isfinite(value))
        str_printf(out, "%.*f", digits, value);
}

static void put_csv(struct str *out, const char *name, const struct score *s) {
    const struct score_counts *c = &s->counts;
    const struct score_intervals i = score_intervals(s);
    const double values[] = {s->sensitivity, i.sensitivity_low,       i.sensitivity_high, s->precision,
                             s->f1,          s->false_alarms_per_24h, i.rate_low,         i.rate_high};
    str_puts(out, "\"");
    for (const char *at = name; *at; at++)
        str_printf(out, *at == '"' ? "\"\"" : "%c", *at);
    str_printf(out, "\",%.4f,%.0f,%.0f,%.0f", c->duration_s / 3600, c->ref, c->tp, c->fp);
    for (size_t k = 0; k < sizeof values / sizeof *values; k++)
        put_cell(out, ",", values[k], 4);
    str_puts(out, "\n");
}

/* "0.75 (0.41--0.93)" */
static void put_share(struct str *out, double value, double low, double high) {
    put_cell(out, " & ", value, 2);
    if (isfinite(value) && isfinite(low))
        str_printf(out, " (%.2f--%.2f)", low, high);
}

static void put_latex(struct str *out, const char *name, const struct score *s) {
    const struct score_intervals i = score_intervals(s);
    for (const char *at = name; *at; at++) /* what LaTeX would take for commands */
        str_printf(out, strchr("_&%#${}", *at) ? "\\%c" : "%c", *at);
    str_printf(out, " & %.1f & %.0f", s->counts.duration_s / 3600, s->counts.ref);
    put_share(out, s->counts.ref > 0 ? s->sensitivity : NAN, i.sensitivity_low, i.sensitivity_high);
    put_cell(out, " & ", s->precision, 2);
    put_cell(out, " & ", s->f1, 2);
    put_share(out, s->counts.duration_s > 0 ? s->false_alarms_per_24h : NAN, i.rate_low, i.rate_high);
    str_puts(out, " \\\\\n");
}

void score_table_row(struct str *out, bool latex, const char *name, const struct score *s) {
    (latex ? put_latex : put_csv)(out, name, s);
}

void score_table_end(struct str *out, bool latex) {
    if (latex)
        str_puts(out, "\\end{tabular}\n");
}

/* /models: the cards of the models that serve. */

#include "base/counted.h"
#include "base/json.h"
#include "daemon/page/shell.h"
#include "daemon/page/words.h"

static void put_rates(struct html *h, const struct alarm_sets *alarms) {
    const struct alarm_set *first = alarms->sets;
    if (!alarms->n)
        return;
    html_put(h,
             "<div class=\"scroll\"><table><caption>Rules for alarms, and what they reached on the %.*f h with %.0f seizures of "
             "%.0f patient%s on which they were chosen (95 %% intervals)</caption><thead><tr><th scope=\"col\">rule for</th><th "
             "scope=\"col\" class=\"n\">on, off</th><th scope=\"col\" class=\"n\">sensitivity</th><th scope=\"col\" "
             "class=\"n\">false alarms reached</th><th scope=\"col\" class=\"n\">median delay</th></tr></thead><tbody>",
             first->hours < 100 ? 1 : 0, first->hours, first->seizures, first->patients, first->patients > 1 ? "s" : "");
    for (int i = 0; i < alarms->n; i++) {
        const struct alarm_set *r = &alarms->sets[i];
        struct words w;
        const char *delay = isnan(r->delay_p50_s) ? "–" : words_seconds(&w, r->delay_p50_s);
        html_put(h,
                 "<tr><th scope=\"row\">%.0f in 24 h</th><td class=\"n\">%.3f, %.3f</td><td class=\"n\">%.2f (%.2f–%.2f)</td><td "
                 "class=\"n\">%.2f</td><td class=\"n\">%s</td></tr>",
                 r->rate, r->rule.on, r->rule.off, r->sensitivity, r->sensitivity_low, r->sensitivity_high, r->false_alarms_per_24h,
                 delay);
    }
    html_put(h, "</tbody></table></div>");
}

static void put_role(struct html *h, const char *name, const struct json *role) {
    char text[200], f1[32] = "";
    double value = json_f64(json_get(role, "event_f1"), NAN);
    if (isfinite(value))
        str_format(f1, sizeof f1, ", event F1 %.3f", value);
    str_format(text, sizeof text, "%s, %.1f h, %s%s", counted(json_i64(json_get(role, "patients"), 0), "patient").text,
               json_f64(json_get(role, "hours"), 0), counted(json_i64(json_get(role, "seizures"), 0), "seizure").text, f1);
    shell_put_fact(h, name, text);
}

/* Where the model comes from; files of older versions and built-in models do not say it. */
static void put_origin(struct html *h, const char *card) {
    OWNED_POINTER(json_free) struct json *json = NULL;
    if (!*card || json_parse(card, strlen(card), "card", &json, NULL))
        return;
    shell_put_fact(h, "trained by brrd", json_str(json_get(json, "version"), "?"));
    shell_put_fact(h, "source", json_str(json_get(json, "source"), "–"));
    put_role(h, "training", json_get(json, "training"));
    put_role(h, "validation", json_get(json, "validation"));
}

static void put_card(struct html *h, const struct status_model *m) {
    const struct detector_info *info = &m->served.opened->info;
    const struct modelfile *f = &info->file;
    const char *preset = seizure_preset_name(&f->model), *precision = dtype_name(info->precision);
    const double *band = f->frontend.bandpass_hz, notch = f->frontend.notch_hz;
    struct words w;
    char text[200];
    int channels;
    if (montage_channels(f->montage, NULL, &channels, NULL))
        channels = f->model.in_channels;
    const int missing = frontend_is_feature(f->frontend.normalize) ? channels - 1 : (int)f->most_missing;
    html_put(h, "<dl>");
    str_format(text, sizeof text, "%s%s%s", seizure_type_name(f->model.type), strcmp(preset, "none") ? ", " : "",
               strcmp(preset, "none") ? preset : "");
    shell_put_fact(h, "network", text);
    str_format(text, sizeof text, "%lld, %s of device memory", (long long)info->parameters, words_bytes(&w, info->memory_bytes));
    shell_put_fact(h, "parameters", text);
    str_format(text, sizeof text, "%s; --partial %d runs it on that many of its channels", f->montage, channels - missing);
    shell_put_fact(h, "montage", missing ? text : f->montage);
    str_format(text, sizeof text, "%g–%g Hz, notch %s", band[0], band[1],
               notch > 1000 ? "50 and 60 Hz"
               : notch > 55 ? "60 Hz"
               : notch > 0  ? "50 Hz"
                            : "none");
    shell_put_fact(h, "filters", text);
    str_format(text, sizeof text, "%g s, a new result every %g s", (double)modelfile_window(f) / FRONTEND_RATE_HZ,
               (double)modelfile_hop(f) / FRONTEND_RATE_HZ);
    shell_put_fact(h, "window", text);
    str_format(text, sizeof text, "on above %.3f, off below %.3f", f->events.on, f->events.off);
    shell_put_fact(h, "events", text);
    str_format(text, sizeof text, "step %lld, epoch %lld", (long long)f->step, (long long)f->epoch);
    if (f->step) /* a line of arithmetic was never trained */
        shell_put_fact(h, "trained to", text);
    put_origin(h, f->card);
    if (f->step && isfinite(f->prior) && f->prior > 0)
        shell_put_fact(h, "share of seizure in training", words_number(&w, f->prior, "–"));
    if (*f->labels)
        shell_put_fact(h, "labels", f->labels);
    if (*f->init_from || *f->init_from_sha256)
        shell_put_fact(h, "trained from", *f->init_from ? f->init_from : f->init_from_sha256);
    shell_put_fact(h, "on", m->devices);
    str_format(text, sizeof text, "%s, logits within %.3g of f32", precision, info->bf16_difference);
    shell_put_fact(h, "precision", info->bf16_difference > 0 ? text : precision);
    html_put(h, "</dl>");
    if (*m->served.opened->note)
        html_put(h, "<p class=\"hint\">%s</p>", m->served.opened->note);
    put_rates(h, &f->alarms);
}

void page_models(struct html *h, const struct page_view *v) {
    const struct status *s = v->status;
    shell_begin(h, v, &(struct shell){.title = "Models", .place = SHELL_MODELS, .live = true});
    html_put(h, "<h1>Models</h1>\n");
    html_put(
        h,
        "<p class=\"empty\">%s<code>brrctl load NAME job:ID</code> makes a model serve under a name. Built in, and loaded when a "
        "stream asks for them: <code>demo</code> (a network), <code>ward</code>, <code>line_length</code> and "
        "<code>band_power</code> (without a network).</p>\n",
        s->n_models ? "" : "No model serves under a name. ");
    html_put(h, "<div class=\"cards\">");
    for (int i = 0; i < s->n_models; i++) {
        const struct served_model *m = &s->models[i].served;
        const int streams = s->models[i].streams;
        html_put(h,
                 "<article class=\"card\" id=\"model-%d\"><h2>%s</h2><p><span class=\"job-state\" data-state=\"%s\">%s</span> %d "
                 "open stream%s</p>",
                 i, m->name,
                 m->opened     ? "running"
                 : m->err.code ? "failed"
                               : "queued",
                 m->opened     ? "serves"
                 : m->err.code ? "does not serve"
                               : "is being loaded",
                 streams, streams == 1 ? "" : "s");
        if (m->err.code)
            html_put(h, "<p class=\"wrong\">%s</p>", m->err.message);
        html_put(h,
                 "<dl><dt>reference</dt><dd>%s</dd><dt>file</dt><dd><code>%s</code></dd><dt>version "
                 "(SHA-256)</dt><dd><code>%s</code></dd></dl>",
                 m->ref, m->path, *m->sha256 ? m->sha256 : "–");
        if (m->opened)
            put_card(h, &s->models[i]);
        html_put(h, "</article>\n");
    }
    html_put(h, "</div>\n");
    shell_end(h, v);
}

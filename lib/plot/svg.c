#include "plot/svg.h"

#include "plot/picture.h"

static const char style[] =
    "text{font-family:system-ui,'Segoe "
    "UI',Helvetica,Arial,sans-serif;font-size:12px;fill:#1f2937}.title{font-size:18px;font-weight:600}.muted{fill:#6b7280}.name{"
    "font-size:11px;fill:#374151}.tick{font-size:11px;fill:#6b7280}.axis{stroke:#9ca3af;stroke-width:1}.grid{stroke:#e5e7eb;stroke-"
    "width:1}.eeg{fill:#64748b;stroke:#64748b;stroke-width:.6;stroke-linejoin:round}.area{fill:#bfdbfe;stroke:none}.curve{fill:"
    "none;stroke:#1d4ed8;stroke-width:1.4;stroke-linejoin:round}.on{stroke:#1e3a8a;stroke-width:1;stroke-dasharray:5 "
    "3}.off{stroke:#1e3a8a;stroke-width:1;stroke-dasharray:1 "
    "3}.reference{fill:#0f766e}.detected{fill:#ea580c}.alarm{fill:#be123c}.shade{fill:#0f766e;fill-opacity:.16}.track{fill:#f3f4f6}"
    ".line0{stroke:#2563eb}.line1{stroke:#ea580c}.line2{stroke:#0f766e}.line3{stroke:#be123c}.line4{stroke:#7c3aed}.line5{stroke:#"
    "a16207}.line6{stroke:#0891b2}.line7{stroke:#4b5563}.line{fill:none;stroke-width:1.6;stroke-linejoin:round}.key0{fill:#2563eb}."
    "key1{fill:#ea580c}.key2{fill:#0f766e}.key3{fill:#be123c}.key4{fill:#7c3aed}.key5{fill:#a16207}.key6{fill:#0891b2}.key7{fill:#"
    "4b5563}.dashed{stroke-dasharray:6 4}.band{fill-opacity:.16;stroke:none}.best{stroke:#0f766e;stroke-width:1;stroke-dasharray:4 "
    "3}";

void svg_open(struct svg *g, double width, double height, const char *label) {
    str_init(&g->out, SVG_MAX_BYTES);
    str_printf(&g->out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" "
               "aria-label=\"",
               width, height, width, height);
    svg_escape(g, label);
    str_printf(&g->out, "\">\n<style>%s</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", style);
}

int svg_save(struct svg *g, const char *path, struct err *err) {
    str_puts(&g->out, "</svg>\n");
    int rc = picture_named(path) && str_ok(&g->out) ? picture_write(path, g->out.data, g->out.len, err)
                                                    : fsio_write_text(path, &g->out, err);
    str_done(&g->out);
    return rc;
}

int svg_append(struct svg *g, struct str *out, struct err *err) {
    str_puts(&g->out, "</svg>\n");
    bool fits = str_ok(&g->out);
    if (fits)
        str_append(out, g->out.data, g->out.len);
    str_done(&g->out);
    return fits && str_ok(out) ? 0 : err_set(err, ERR_EXHAUSTED, "the picture takes more than %d bytes", SVG_MAX_BYTES);
}

/* Length of the valid UTF-8 sequence at text (surrogates and overlong forms are not), 0 when it is not one. */
static int sequence(const unsigned char *text) {
    int n = text[0] < 0x80 ? 1 : text[0] < 0xc2 ? 0 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : text[0] < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] >= 0xa0) || (text[0] == 0xf0 && text[1] < 0x90) ||
        (text[0] == 0xf4 && text[1] >= 0x90))
        return 0;
    return n;
}

void svg_escape(struct svg *g, const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        int n = sequence(at);
        if (n == 0 || *at < 0x20 || *at == 0x7f)
            str_puts(&g->out, "?");
        else if (*at == '<' || *at == '>' || *at == '&' || *at == '"')
            str_printf(&g->out, "&#%d;", *at);
        else
            str_append(&g->out, at, (size_t)n);
        at += n ? n : 1;
    }
}

void svg_text(struct svg *g, double x, double y, const char *class, const char *anchor, const char *text) {
    str_printf(&g->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"%s\">", x, y, class, anchor);
    svg_escape(g, text);
    str_puts(&g->out, "</text>\n");
}

void svg_text_up(struct svg *g, double x, double y, const char *class, const char *text) {
    str_printf(&g->out, "<text transform=\"translate(%.1f %.1f) rotate(-90)\" class=\"%s\" text-anchor=\"middle\">", x, y, class);
    svg_escape(g, text);
    str_puts(&g->out, "</text>\n");
}

void svg_legend(struct svg *g, double x, double y, const char *const *names, int n) {
    str_printf(&g->out, "<text x=\"%.1f\" y=\"%.1f\" class=\"muted\">", x, y);
    for (int i = 0; i < n; i++) {
        str_printf(&g->out, "<tspan class=\"key%d\" dx=\"%d\" font-weight=\"700\">——</tspan><tspan dx=\"5\">", i, i ? 20 : 0);
        svg_escape(g, names[i]);
        str_puts(&g->out, "</tspan>");
    }
    str_puts(&g->out, "</text>\n");
}

void svg_line(struct svg *g, double x1, double y1, double x2, double y2, const char *class) {
    str_printf(&g->out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2, y2, class);
}

void svg_rect(struct svg *g, const struct svg_box *box, const char *class, const char *tip) {
    str_printf(&g->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"%s\"", box->x, box->y,
               fmax(box->width, 1.5), box->height, class);
    if (!tip) {
        str_puts(&g->out, "/>\n");
        return;
    }
    str_puts(&g->out, "><title>");
    svg_escape(g, tip);
    str_puts(&g->out, "</title></rect>\n");
}

void svg_path_open(struct svg_path *p, struct svg *g, const char *class) {
    *p = (struct svg_path){.g = g};
    str_printf(&g->out, "<path class=\"%s\" d=\"", class);
}

static void put_tenths(struct str *out, int64_t tenths, const char *before) {
    int64_t size = tenths < 0 ? -tenths : tenths;
    str_printf(out, "%s%s%lld", before, tenths < 0 ? "-" : "", (long long)(size / 10));
    if (size % 10)
        str_printf(out, ".%lld", (long long)(size % 10));
}

void svg_path_move(struct svg_path *p, double x, double y) {
    p->x = llround(x * 10);
    p->y = llround(y * 10);
    put_tenths(&p->g->out, p->x, "M");
    put_tenths(&p->g->out, p->y, " ");
}

void svg_path_line(struct svg_path *p, double x, double y) {
    int64_t to_x = llround(x * 10), to_y = llround(y * 10);
    put_tenths(&p->g->out, to_x - p->x, "l");
    put_tenths(&p->g->out, to_y - p->y, to_y < p->y ? "" : " ");
    p->x = to_x;
    p->y = to_y;
}

void svg_path_shut(struct svg_path *p) { str_puts(&p->g->out, "z"); }

void svg_path_close(struct svg_path *p) { str_puts(&p->g->out, "\"/>\n"); }

double svg_step(double range, int most) {
    double step = pow(10, floor(log10(range / most)));
    static const double factors[] = {1, 2, 5, 10};
    for (int i = 0; i < 4; i++)
        if (range / (step * factors[i]) <= most)
            return step * factors[i];
    return step * 20;
}

double svg_time_step(double seconds, int most) {
    static const double steps[] = {1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400};
    if (seconds / most < 1)
        return svg_step(seconds, most);
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++)
        if (seconds / steps[i] <= most)
            return steps[i];
    return svg_step(seconds / 86400, most) * 86400;
}

void svg_time(char *buf, unsigned long size, double seconds, double step) {
    int64_t tenths = llround(seconds * 10), s = tenths / 10;
    if (s >= 3600)
        str_format(buf, size, "%lld:%02lld:%02lld", (long long)(s / 3600), (long long)(s / 60 % 60), (long long)(s % 60));
    else
        str_format(buf, size, "%lld:%02lld", (long long)(s / 60), (long long)(s % 60));
    if (step < 1) {
        size_t used = 0;
        while (buf[used])
            used++;
        str_format(buf + used, size - used, ".%lld", (long long)(tenths % 10));
    }
}

#include "daemon/page/shell.h"

#include "daemon/page/banner.h"
#include "daemon/page/words.h"

enum { RELOAD_S = 5 };

static const struct {
    const char *path, *name;
} places[SHELL_NOWHERE] = {
    {"/", "Overview"}, {"/streams", "Streams"}, {"/alarms", "Alarms"}, {"/jobs", "Jobs"}, {"/models", "Models"}};

static void put_head(struct html *h, const struct page_view *v, const struct shell *s, int alarms) {
    const struct page_asset *css = page_asset_find("/assets/page.css"), *js = page_asset_find("/assets/page.js"),
                            *viewer = page_asset_find("/assets/viewer.js"), *answers = page_asset_find("/assets/answers.js");
    html_put(h, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    if (alarms)
        html_put(h, "(%d) ", alarms);
    html_put(h, "%s – brrd</title>\n<link rel=\"icon\" href=\"/assets/icon.svg\" type=\"image/svg+xml\">\n", s->title);
    html_put(h, "<link rel=\"stylesheet\" href=\"%s?%s\">\n", css->path, css->digest);
    if (v)
        html_put(h, "<script src=\"%s?%s\" defer></script>\n", js->path, js->digest);
    if (s->eeg)
        html_put(h, "<script src=\"%s?%s\" defer></script>\n", viewer->path, viewer->digest);
    if (s->answers)
        html_put(h, "<script src=\"%s?%s\" defer></script>\n", answers->path, answers->digest);
    if (s->live)
        html_put(h, "<noscript><meta http-equiv=\"refresh\" content=\"%d\"></noscript>\n", RELOAD_S);
    html_put(h, "</head>\n");
}

/* The state of the sound, which the script shows: a bar while it cannot sound. */
static void put_sound(struct html *h, const char *sound) {
    html_put(h,
             "<div id=\"sound\" data-sound=\"%s\" data-state=\"off\"><p role=\"status\">Alarms make no sound here.</p><button "
             "type=\"button\" id=\"sound-on\">Switch the sound on</button><button type=\"button\" id=\"sound-test\">Test the "
             "sound</button><noscript>Without script this page makes no sound.</noscript></div>\n",
             sound);
}

static void put_nav(struct html *h, const struct page_view *v, const struct shell *s) {
    html_put(h, "<nav aria-label=\"Pages\"><ul>");
    for (int i = 0; v && i < SHELL_NOWHERE; i++)
        html_put(h, (int)s->place == i ? "<li><a href=\"%s\" aria-current=\"page\">%s</a></li>" : "<li><a href=\"%s\">%s</a></li>",
                 places[i].path, places[i].name);
    if (!v)
        html_put(h, "<li><a href=\"/\">Overview</a></li>");
    html_put(h, "</ul></nav>\n");
}

void shell_begin(struct html *h, const struct page_view *v, const struct shell *s) {
    struct banner banner = {0};
    struct words w;
    const bool wall = v && v->wall;
    if (v)
        banner_of(v, &banner);
    put_head(h, v, s, banner.n_on);
    html_put(h, s->live ? "<body data-live" : "<body");
    html_put(h, wall ? " class=\"wall\">\n" : ">\n");
    html_put(h, "<a class=\"skip\" href=\"#main\">Skip to the content</a>\n<header>\n<p class=\"brand\">brrd</p>\n");
    if (!wall)
        put_nav(h, v, s);
    if (v) {
        html_put(h, "<p class=\"clock\"><time id=\"clock\" datetime=\"%s\"", words_time(&w, v->status->taken_ms));
        html_put(h, ">%s</time></p>\n", words_clock(&w, v->status->taken_ms));
    }
    html_put(h, "</header>\n");
    if (v) {
        if (s->sounds)
            put_sound(h, banner_sound(&banner));
        html_put(h, "<p id=\"stale\" role=\"alert\" hidden></p>\n<p id=\"refused\" role=\"alert\" hidden></p>\n");
        banner_put(h, &banner);
        html_put(h, "<p id=\"new\" role=\"status\" hidden></p>\n");
    }
    html_put(h, "<main id=\"main\" tabindex=\"-1\">\n");
}

void shell_end(struct html *h, const struct page_view *v) {
    html_put(h, "</main>\n<footer>");
    if (v)
        html_put(h, "<p>brrd %s (%s): %s. Alarms are a secondary notification without confirmed delivery.</p>", v->status->version,
                 v->status->revision, v->status->notice);
    if (v && v->signed_in)
        html_put(h, "<form method=\"post\" action=\"/logout\"><button type=\"submit\">Sign out</button></form>");
    html_put(h, "</footer>\n</body>\n</html>\n");
}

void shell_put_fact(struct html *h, const char *name, const char *text) { html_put(h, "<dt>%s</dt><dd>%s</dd>", name, text); }

void page_error(struct html *h, const struct page_view *v, const char *title, const char *text) {
    shell_begin(h, v, &(struct shell){.title = title, .place = SHELL_NOWHERE});
    html_put(h, "<h1>%s</h1>\n<p>%s</p>\n", title, text);
    shell_end(h, v);
}

void page_login(struct html *h, const char *next, const char *why) {
    shell_begin(h, NULL, &(struct shell){.title = "Sign in", .place = SHELL_NOWHERE});
    html_put(h, "<h1>Sign in</h1>\n");
    if (why)
        html_put(h, "<p class=\"wrong\" role=\"alert\">%s</p>\n", why);
    html_put(h,
             "<form class=\"login\" method=\"post\" action=\"/login\"><input type=\"hidden\" name=\"next\" value=\"%s\"><label "
             "for=\"token\">Token</label><input id=\"token\" name=\"token\" type=\"password\" autocomplete=\"current-password\" "
             "required autofocus><button type=\"submit\">Sign in</button></form>\n",
             next);
    html_put(
        h, "<p>An administrator makes a token for a screen with <code>brrctl tls token DIR --role read --all --name ward</code>. "
           "The browser keeps it for 30 days as a cookie that no script can read. A token of the role read is enough here.</p>\n");
    shell_end(h, NULL);
}

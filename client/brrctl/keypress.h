/* keypress: single keys of the person at the terminal, for pictures that are redrawn until `q`. The terminal is as before after
 * keypress_end, after SIGINT, SIGTERM and SIGQUIT, and at exit. One thread; standard input is a terminal, or nothing happens. */
#pragma once
#include "base/base.h"

void keypress_begin(void);
/* True if `q` was pressed since the last call; false where `ask` is. */
bool keypress_quits(bool ask);
void keypress_end(void); /* also without keypress_begin */

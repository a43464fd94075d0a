// The panels, in the order of the navigation. A panel exports `{name, path, title, letter, Panel}`.

import * as callbacks from "./callbacks.js";
import * as charges from "./charges.js";
import * as staticCharges from "./static-charges.js";

export const panels = [charges, staticCharges, callbacks];

import {render} from "preact";
import {loadModel, openShared, runExample} from "./state/app";
import {Page} from "./view/page";

const root = document.getElementById("page")!;
root.replaceChildren();
render(<Page />, root);
void loadModel();
// The first view is the article's example, drawn from a real run; a link that holds a request waits for its reader.
if (!openShared()) void runExample();
addEventListener("hashchange", openShared);

// A figure as a file: the SVG that is on the page with its looks written into it, or a PNG of that.

const LOOKS = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linecap",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
];

// A copy that looks the same where there is no style sheet.
export function standalone(figure: SVGSVGElement): string {
  const copy = figure.cloneNode(true) as SVGSVGElement;
  const from = [figure, ...figure.querySelectorAll("*")];
  const to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((element, i) => {
    const looks = getComputedStyle(element);
    for (const look of LOOKS) to[i].setAttribute(look, looks.getPropertyValue(look));
  });
  const {width, height} = figure.getBoundingClientRect();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  paper.setAttribute("width", "100%");
  paper.setAttribute("height", "100%");
  paper.setAttribute("fill", getComputedStyle(figure.closest(".card") ?? document.body).backgroundColor);
  copy.prepend(paper);
  return new XMLSerializer().serializeToString(copy);
}

export function download(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

async function toPng(svg: string, width: number, height: number): Promise<Blob | null> {
  const url = URL.createObjectURL(new Blob([svg], {type: "image/svg+xml"}));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = width * 2;
    canvas.height = height * 2;
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  } finally {
    URL.revokeObjectURL(url);
  }
}

export function ExportButtons({figure, name}: {figure: string; name: string}) {
  const svg = () => document.getElementById(figure) as unknown as SVGSVGElement;
  const asPng = async () => {
    const {width, height} = svg().getBoundingClientRect();
    const png = await toPng(standalone(svg()), width, height);
    if (png) download(png, `${name}.png`);
  };
  return (
    <p class="exports">
      <button
        type="button"
        class="quiet"
        onClick={() => download(new Blob([standalone(svg())], {type: "image/svg+xml"}), `${name}.svg`)}
      >
        Save SVG
      </button>
      <button type="button" class="quiet" onClick={() => void asPng()}>
        Save PNG
      </button>
    </p>
  );
}

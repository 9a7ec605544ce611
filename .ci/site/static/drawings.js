// On a phone a diagram keeps its size, for nobody could read it shrunk, and is scrolled, from its middle on.
mermaid.initialize({
  flowchart: { useMaxWidth: window.innerWidth > 800 },
  securityLevel: "strict",
  startOnLoad: false,
  theme: "neutral",
});
mermaid.run().then(() => {
  for (const drawing of document.querySelectorAll("pre.mermaid")) {
    drawing.scrollLeft = (drawing.scrollWidth - drawing.clientWidth) / 2;
  }
});

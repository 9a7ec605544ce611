mermaid.initialize({ startOnLoad: true, theme: "neutral", securityLevel: "strict" });

"""Headless Chromium, driven over the DevTools protocol through two pipes."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

COMMAND = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]

# Chromium reads commands at descriptor 3 and answers at 4: a process moves the pipes there and then
# becomes Chromium.
LAUNCHER = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for descriptor, end in zip((3, 4), ends):
    os.dup2(end, descriptor)
os.execv(sys.argv[3], sys.argv[3:])
"""
TIMEOUT = 60


class Browser:
    """One page; ``errors`` collects its errors and warnings."""

    def __enter__(self) -> Self:
        if COMMAND is None:
            raise FileNotFoundError("No chromium, chromium-browser or google-chrome was found.")
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read, browser_output = os.pipe()
        browser_input, write = os.pipe()

        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                LAUNCHER,
                str(browser_input),
                str(browser_output),
                COMMAND,
                *FLAGS,
                f"--user-data-dir={self._folder.name}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(browser_input, browser_output),
        )
        os.close(browser_input)
        os.close(browser_output)
        self._write = write
        self._read = read
        self._buffer = b""
        self._number = 0
        self.errors: list[str] = []
        self._session = ""
        target = next(
            t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page"
        )
        self._session = self.send(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)
        self._folder.cleanup()

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Give an order and return what it brought."""
        self._number += 1
        order = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            order["sessionId"] = self._session
        os.write(self._write, json.dumps(order).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], TIMEOUT)[0]:
                raise TimeoutError(f"The browser sent nothing for {TIMEOUT} s.")
            part = os.read(self._read, 1 << 20)
            if not part:
                raise RuntimeError("The browser has exited.")
            self._buffer += part
        text, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif message.get("method") == "Runtime.consoleAPICalled" and params["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.errors.append(str(params["args"]))
        return message

    def open(
        self,
        path: Path,
        width: int = 1280,
        height: int = 800,
        dark: bool = False,
        phone: bool = False,
    ) -> None:
        """Show a file at a size, in light or dark."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url=path.resolve().as_uri())
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if self.run("document.readyState === 'complete' && location.protocol === 'file:'"):
                self.run(
                    "new Promise((done) => requestAnimationFrame(() => "
                    "requestAnimationFrame(done)))"
                )
                return
            time.sleep(0.05)
        raise TimeoutError(f"{path} did not load.")

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page."""
        result = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        """Press a key where the focus is."""
        code = {"Tab": 9, "Enter": 13, "ArrowDown": 40, "ArrowUp": 38}.get(key, 0)
        down = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.send(
            "Input.dispatchKeyEvent", type="keyDown", **down, **({"text": text} if text else {})
        )
        self.send("Input.dispatchKeyEvent", type="keyUp", **down)

    def screenshot(self, full: bool = False) -> bytes:
        """Return a PNG of the window, or of the full page."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        return base64.b64decode(shot["data"])

"""The Java side of a test: programs of Kafka's jars, and the Java course-revenue job."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.course_revenue.product import Product


def java(class_path: str, *arguments: str) -> str:
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", class_path, *arguments],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


class JavaJob:
    """The Java course-revenue job on a product's input topics, as an application of its own unless told otherwise."""

    def __init__(self, class_path: str, product: Product, output: str, settings: Mapping[str, object]) -> None:
        self.application_id = str(settings.get("application.id", f"java-{product.application_id}"))
        self.output = output
        self.log_file = product.directory / f"java-job-{time.monotonic_ns()}.log"
        options = {
            "bootstrap.servers": product.bootstrap,
            "application.id": self.application_id,
            "state.dir": product.directory / "java-state",
            "job.lines": product.topics["lines"],
            "job.courses": product.topics["courses"],
            "job.output": output,
            "commit.interval.ms": 200,
            **settings,
        }
        with self.log_file.open("wb") as out:
            self.process = subprocess.Popen(
                ["java", "-Xmx512m", "-cp", class_path, "CourseRevenueJob", *(f"{k}={v}" for k, v in options.items())],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def tail(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")[-4000:]

    def kill(self) -> None:
        """``kill -9``."""
        self.process.kill()
        self.process.wait(30)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            finally:
                self.process.kill()

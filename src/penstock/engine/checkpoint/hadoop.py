"""A checkpoint's files on any file system that Hadoop's client knows, through the driver's JVM."""

from __future__ import annotations

import errno
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.engine.checkpoint.local import Lock
from penstock.spi import cause_of

#: The capability (in Hadoop's ``CommonPathCapabilities``) of a store in which files become visible when they are
#: closed.
_ABORTABLE = "fs.capability.outputstream.abortable"
#: How the clients of Hadoop's file systems report a missing right: names of classes, and of HTTP's statuses.
_DENIED = re.compile(r"AccessControlException|AuthorizationException|AccessDenied|Forbidden|Unauthorized")


class HadoopFiles:
    """Files below the URI ``root``. All methods raise OSError.

    A file is written to a draft, which is renamed. Object stores rename by copying and deleting, so that a crash in
    between would leave no file of the name; but what is written there appears when it is closed, whole and at once.
    Such a store declares that a stream can be aborted (Spark checks that for its own logs), and needs no draft.
    """

    def __init__(self, spark: SparkSession, root: str):
        context: Any = spark.sparkContext
        self._jvm = context._jvm
        with hadoop_errors():
            configuration = context._jsc.hadoopConfiguration()
            self._root = self._jvm.org.apache.hadoop.fs.Path(root)
            self._system = self._root.getFileSystem(configuration)
            self._context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._root.toUri(), configuration)
            self._whole = bool(self._system.hasPathCapability(self._root, _ABORTABLE))
        rename = self._jvm.org.apache.hadoop.fs.Options.Rename
        gateway = context._gateway
        self._overwrite = gateway.new_array(rename, 1)
        self._overwrite[0] = rename.OVERWRITE
        self._no_options = gateway.new_array(rename, 0)

    def read(self, name: str) -> str | None:
        path = self._path(name)
        with hadoop_errors():
            if not self._system.exists(path):
                return None
            stream = self._system.open(path)
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def write(self, name: str, text: str, *, durable: bool = True) -> None:
        """Write the file, or replace it, as atomically as the file system renames."""
        if self._whole:
            self._send(self._path(name), text, overwrite=True)
            return
        with hadoop_errors():
            self._context.rename(self._draft(name, text), self._path(name), self._overwrite)

    def create(self, name: str, text: str) -> None:
        draft = None if self._whole else self._draft(name, text)
        try:
            if draft is None:
                self._send(self._path(name), text, overwrite=False)
                return
            with hadoop_errors():
                self._context.rename(draft, self._path(name), self._no_options)
        except OSError:
            if draft is not None:
                with hadoop_errors():
                    self._system.delete(draft, False)
            if self.read(name) is None:
                raise

    def delete(self, name: str) -> None:
        with hadoop_errors():
            self._system.delete(self._path(name), False)

    def lock(self, name: str) -> Lock:
        return Lock()

    def names(self, folder: str) -> list[str]:
        path = self._path(folder)
        with hadoop_errors():
            if not self._system.exists(path):
                return []
            return [str(status.getPath().getName()) for status in self._system.listStatus(path)]

    def _draft(self, name: str, text: str) -> Any:
        draft = self._path(f"{name}.{uuid.uuid4().hex}.draft")
        self._send(draft, text, overwrite=True)
        return draft

    def _send(self, path: Any, text: str, *, overwrite: bool) -> None:
        with hadoop_errors():
            stream = self._system.create(path, overwrite)
            try:
                stream.write(text.encode("utf-8"))
            except Py4JJavaError:
                if self._whole:
                    stream.abort()  # else the part written so far would become visible
                raise
            finally:
                stream.close()

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)


@contextmanager
def hadoop_errors() -> Iterator[None]:
    """Raises the errors of Hadoop's client as OSError, as Python's own file functions do."""
    try:
        yield
    except Py4JJavaError as error:
        raise _os_error(str(error.java_exception.toString())) from error
    except PySparkException as error:
        raise _os_error(cause_of(str(error))) from error


def _os_error(text: str) -> OSError:
    return PermissionError(errno.EACCES, text) if _DENIED.search(text) else OSError(text)

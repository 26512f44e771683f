"""Files of Keras's cache folder, and what is packed in them."""

import hashlib
import os
import shutil
import tarfile
import urllib.parse
import warnings
import zipfile


def _is_whole(path, wanted, algorithm):
    """Whether a file is the one that was meant."""
    if algorithm == "auto":
        algorithm = "sha256" if len(wanted) == 64 else "md5"
    found = hashlib.new({"sha256": "sha256", "md5": "md5"}[algorithm])
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            found.update(part)
    return found.hexdigest() == str(wanted)


def _unpack(path, folder, form):
    """Unpacks an archive; whether it is one."""
    forms = ("tar", "zip") if form == "auto" else (form,) if isinstance(form, str) else form or ()
    for each in forms:
        if each == "tar" and tarfile.is_tarfile(path):
            with tarfile.open(path) as archive:
                archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
            return True
        if each == "zip" and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                archive.extractall(folder)
            return True
    return False


def get_file(
    fname=None,
    origin=None,
    untar=False,
    md5_hash=None,
    file_hash=None,
    cache_subdir="datasets",
    hash_algorithm="auto",
    extract=False,
    archive_format="auto",
    cache_dir=None,
    force_download=False,
):
    """A file of Keras's cache folder, unpacked where that is wanted. Nothing is downloaded; an origin of file:// is copied."""
    if origin is None:
        raise ValueError('Please specify the "origin" argument (URL of the file to download).')
    if md5_hash is not None and file_hash is None:
        file_hash, hash_algorithm = md5_hash, "md5"
    folder = os.path.join(os.path.expanduser(cache_dir or os.environ.get("KERAS_HOME") or "~/.keras"), cache_subdir)
    given = fname is not None and bool(os.fspath(fname))
    place = urllib.parse.urlsplit(origin)
    name = os.fspath(fname) if given else os.path.basename(place.path)
    if not name:
        raise ValueError(f"Can't parse the file name from the origin provided: '{origin}'. Please specify the `fname` argument.")
    if given and os.sep in name:
        raise ValueError(f"Paths are no longer accepted as the `fname` argument. To specify the file's parent directory, use the `cache_dir` argument. Received: fname={fname}")
    target = unpacked = os.path.join(folder, name)
    if extract or untar:
        if given and "." in name:
            unpacked = os.path.join(folder, f"{name[: name.find('.')]}_extracted")
        else:
            target = f"{target}_archive"
    named = os.path.join(folder, os.path.basename(place.path))
    if not os.path.exists(target) and target != unpacked and os.path.isfile(named):  # As it is called where it comes from.
        if named == unpacked:
            os.replace(named, target)
        else:
            target = named
    if place.scheme == "file" and (force_download or not os.path.exists(target)):
        os.makedirs(folder, exist_ok=True)
        shutil.copyfile(urllib.parse.unquote(place.path), target)
    if not os.path.exists(target):
        if target != unpacked and os.path.isdir(unpacked):
            return unpacked  # Somebody has unpacked it.
        raise FileNotFoundError(f"{target} is not there, and tandem downloads nothing; fetch it from {origin}")
    if file_hash is not None and os.path.isfile(target) and not _is_whole(target, file_hash, hash_algorithm):
        warnings.warn(f"{target} is another file than the program means: its hash is not {file_hash}. It is used as it is, since nothing is downloaded", stacklevel=2)
    if not (extract or untar) or os.path.isdir(target):
        return target
    if not _unpack(target, unpacked, "tar" if untar else archive_format):
        warnings.warn(f"{target} could not be unpacked: it is no archive of the form {archive_format}", stacklevel=2)
    return unpacked
